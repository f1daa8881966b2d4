# Reads C sources for the checks in this folder: lists files, strips comments and strings, and cuts
# a file into its declarations. Nothing is preprocessed: all branches of an #if are read.
package c_source;
use strict;
use warnings;
use Exporter 'import';
our @EXPORT_OK = qw(files parse unit_of resolve_include note_static_macros);

# Tracked files that fit the patterns, and new ones that git does not ignore.
sub files {
    open my $list, '-|', 'git', 'ls-files', '-z', '--cached', '--others', '--exclude-standard',
        '--', @_ or die "git: $!\n";
    local $/ = "\0";
    my %seen;
    while (<$list>) {
        chomp;
        $seen{$_} = 1 if -f $_;
    }
    close $list or die "git ls-files failed\n";
    return sort keys %seen;
}

# The name of a file's unit: files of one stem in one folder are one unit, named without an
# extension; a header alone keeps its own.
sub unit_of {
    my ($path, $sources) = @_;
    (my $stem = $path) =~ s/\.[a-z]+$//;
    return $sources->{"$stem.c"} || $sources->{"$stem.cu"} ? $stem : $path;
}

sub resolve_include {
    my ($from, $path, $known) = @_;
    (my $folder = $from) =~ s{[^/]*$}{};
    for my $try ("src/$path", "include/$path", "bench/$path", "$folder$path") {
        return $try if $known->{$try};
    }
    return undef;
}

sub blank { # the line ends of a comment, so that lines keep their numbers
    my ($text) = @_;
    return ' ' . "\n" x ($text =~ tr/\n//);
}

# A file as a hash:
#   includes  [path, line] of every include
#   tok line  all tokens outside preprocessor lines, and their lines
#   match     for an opening bracket the index of its end, and the other way round
#   macros    {name, tok, line} of every #define
#   chunks    declarations at file scope; see cut()
sub parse {
    my ($path) = @_;
    open my $in, '<', $path or die "$path: $!\n";
    local $/;
    my $text = <$in>;
    close $in;
    $text =~ s{(/\*.*?\*/|//[^\n]*)|("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+')}
              {defined $1 ? blank($1) : $2}gse;
    my @lines = split /\n/, $text, -1;
    my $self = {path => $path, includes => [], tok => [], line => [], macros => []};
    my %column0; # indices of closing braces at the start of a line
    for (my $i = 0; $i < @lines; $i++) {
        if ($lines[$i] =~ /^\s*#\s*include\s*["<]([^">]*)[">]/) {
            push @{$self->{includes}}, [$1, $i + 1];
        } elsif ($lines[$i] =~ /^\s*#/) {
            my $macro = $lines[$i] =~ /^\s*#\s*define\s+(\w+)(?:\([^)]*\))?(.*)/
                ? {name => $1, tok => [], line => []} : undef;
            my $rest = $2;
            while (1) {
                my $more = $lines[$i] =~ /\\$/;
                tokens($rest, $i + 1, $macro) if $macro;
                last unless $more && $i < $#lines;
                $rest = $lines[++$i];
            }
            push @{$self->{macros}}, $macro if $macro;
        } else {
            $column0{@{$self->{tok}}} = 1 if $lines[$i] =~ /^\}/;
            tokens($lines[$i], $i + 1, $self);
        }
    }
    match_brackets($self, \%column0);
    cut($self);
    return $self;
}

my $token = qr{([A-Za-z_]\w*|\d[\w.]*|->|\+\+|--|[-+*/%&|^=!<>]?=|&&|\|\||\.\.\.|""|''|\S)};

sub tokens {
    my ($text, $number, $into) = @_;
    $text =~ s/"(?:\\.|[^"\\])*"/""/g;
    $text =~ s/'(?:\\.|[^'\\])+'/''/g;
    while ($text =~ /$token/g) {
        push @{$into->{tok}}, $1;
        push @{$into->{line}}, $number;
    }
}

# A closing brace at the start of a line ends a declaration, whatever the branches of an #if left
# open before it.
sub match_brackets {
    my ($self, $column0) = @_;
    my ($tok, @open, %match) = ($self->{tok});
    for (my $i = 0; $i < @$tok; $i++) {
        my $t = $tok->[$i];
        if ($t eq '(' || $t eq '[' || $t eq '{') {
            next if $t eq '{' && $i > 1 && $tok->[$i - 1] eq '""' && $tok->[$i - 2] eq 'extern';
            push @open, $i;
        } elsif ($t eq ')' || $t eq ']' || $t eq '}') {
            next unless @open;
            if ($column0->{$i}) {
                @open = ($open[0]);
            }
            my $from = pop @open;
            $match{$from} = $i;
            $match{$i} = $from;
        }
    }
    $match{$_} = $#$tok for @open; # never closed
    $self->{match} = \%match;
}

# Cuts the tokens into declarations, each {kind, name, from, to, static}, and by kind:
#   function  parameters (index of the opening bracket), body (index of the brace)
#   prototype parameters
#   object    value (index after '=', if any), extern
#   type      struct, union, enum, typedef, or a macro's call
sub cut {
    my ($self) = @_;
    my ($tok, $match) = @$self{qw(tok match)};
    my @chunks;
    my $i = 0;
    while ($i < @$tok) {
        if ($tok->[$i] eq ';' || $tok->[$i] eq '}') {
            $i++;
            next;
        }
        if ($tok->[$i] eq 'extern' && ($tok->[$i + 1] // '') eq '""') {
            $i += ($tok->[$i + 2] // '') eq '{' ? 3 : 2;
            next;
        }
        my $chunk = {from => $i, kind => 'object', static => 0, extern => 0};
        my ($call, $equal, $typed);
        while ($i < @$tok && $tok->[$i] ne ';') {
            my $t = $tok->[$i];
            my $before = $i > $chunk->{from} ? $tok->[$i - 1] : '';
            if (!$equal && $t =~ /^(?:static|extern|typedef)$/) {
                $chunk->{$t} = 1;
            } elsif ($t eq '=') {
                $equal //= $i;
            } elsif ($t eq '(' && !$equal && !defined $call) {
                if ($before =~ /^[A-Z][A-Z0-9_]*$/ && $i - 1 == $chunk->{from}) {
                    my $after = $match->{$i} + 1; # a macro's call, perhaps before a declaration
                    if (($tok->[$after] // ';') !~ /^[;{]$/) {
                        $chunk->{kind} = 'type';
                        $i = $after;
                        last;
                    }
                    $call = $i;
                } elsif (($tok->[$i + 1] // '') eq '*') {
                    $chunk->{pointer} = $i;
                } elsif ($before =~ /^[a-z]\w*$/i && $before !~ /^[A-Z][A-Z0-9_]*$/) {
                    $call = $i;
                }
            } elsif ($t eq '{' && !$equal) {
                if (defined $call && $before ne '=') {
                    $chunk->{kind} = 'function';
                    $chunk->{body} = $i;
                    $i = $match->{$i} + 1;
                    last;
                }
                $typed = 1;
            }
            $i = defined $match->{$i} && $match->{$i} > $i ? $match->{$i} + 1 : $i + 1;
        }
        $chunk->{to} = $i;
        name_it($self, $chunk, $call, $equal, $typed) if $chunk->{kind} ne 'type';
        push @chunks, $chunk;
    }
    $self->{chunks} = \@chunks;
}

sub name_it {
    my ($self, $chunk, $call, $equal, $typed) = @_;
    my ($tok, $match) = @$self{qw(tok match)};
    $chunk->{value} = $equal + 1 if $equal;
    if ($chunk->{typedef}) {
        $chunk->{kind} = 'type';
        $chunk->{function} = 1 if defined $call || defined $chunk->{pointer};
        $chunk->{name} = defined $chunk->{pointer} ? $tok->[$chunk->{pointer} + 2]
            : defined $call ? $tok->[$call - 1] : $tok->[$chunk->{to} - 1];
    } elsif (defined $call) {
        $chunk->{kind} = 'prototype' if $chunk->{kind} ne 'function';
        $chunk->{parameters} = $call;
        $chunk->{name} = $tok->[$call - 1];
    } elsif (defined $chunk->{pointer}) {
        $chunk->{name} = $tok->[$chunk->{pointer} + 2];
        $chunk->{function_pointer} = 1;
    } else {
        my $end = $equal // $chunk->{to};
        my $at = $end - 1;
        $at = $match->{$at} - 1 while $at > $chunk->{from} && $tok->[$at] eq ']';
        if ($at > $chunk->{from} && $tok->[$at] =~ /^[A-Za-z_]\w*$/
            && $tok->[$at - 1] !~ /^(?:struct|union|enum)$/) {
            $chunk->{name} = $tok->[$at];
            $chunk->{more} = [others($self, $chunk)] if $chunk->{extern};
        } else {
            $chunk->{kind} = 'type';
        }
    }
}

# The other names of `extern int a, b, c;`: each stands before a comma.
sub others {
    my ($self, $chunk) = @_;
    my ($tok, $match) = @$self{qw(tok match)};
    my @names;
    for my $i ($chunk->{from} .. $chunk->{to} - 1) {
        next unless $tok->[$i] eq ',';
        my $at = $i - 1;
        $at = $match->{$at} - 1 while $at > $chunk->{from} && $tok->[$at] eq ']';
        push @names, $tok->[$at];
    }
    return @names;
}

# Marks what is static by a macro, as in `LANES narrow(…)`.
sub note_static_macros {
    my ($sources) = @_;
    my %is_static;
    for my $s (@$sources) {
        for my $macro (@{$s->{macros}}) {
            $is_static{$macro->{name}} = 1 if ($macro->{tok}[0] // '') eq 'static';
        }
    }
    for my $s (@$sources) {
        for my $chunk (grep { defined $_->{parameters} } @{$s->{chunks}}) {
            for my $i ($chunk->{from} .. $chunk->{parameters} - 1) {
                $chunk->{static} = 1 if $is_static{$s->{tok}[$i]};
            }
        }
    }
}

1;
