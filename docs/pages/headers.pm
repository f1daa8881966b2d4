# Reads the public headers for what is made of them: manual pages and HTML.
#
# A header is an essay, then sections. A section is opened by a line such as
#
#     /* -- memory ---------------------------------- */
#
# and holds items, which blank lines separate: a comment and the declarations that follow it without
# a blank line. A comment that no declaration follows is the section's note and is true of all its
# calls. In a comment, what is indented by four columns or more stays as it is, and
# "  Blocks:   until …" is a promise, told by its label.
#
#     {stem, file, essay, sections: [{title, note, items: [{comment, declarations}]}]}
#     comment      {blocks: [[text | code, words]], labels: {Blocks: words}}
#     declaration  {kind: call | type | macro, name, code, remark, constants}
package headers;
use strict;
use warnings;
use Exporter 'import';
our @EXPORT_OK = qw(read_headers calls_of items_of promises summary @labels);

# The promises of a call, in the order in which pages tell them.
our @labels = ('In place', 'Blocks', 'Ownership', 'Returns', 'Errors', 'Threads');

# -- comments --------------------------------------------------------------------------------------

sub close_block {
    my ($comment, $kind, $lines) = @_;
    pop @$lines while @$lines && $lines->[-1] eq '';
    return unless @$lines;
    if ($kind eq 'text') {
        push @{ $comment->{blocks} }, ['text', join ' ', @$lines];
    } else {
        my ($indent) = sort { $a <=> $b } map { /^( *)\S/ ? length $1 : () } @$lines;
        push @{ $comment->{blocks} }, ['code', join "\n", map { s/^ {$indent}//r } @$lines];
    }
    @$lines = ();
}

# The words of a comment, without its stars, as blocks and labels.
sub parse_comment {
    my ($text) = @_;
    my $comment = { blocks => [], labels => {} };
    my ($kind, $label, @lines) = ('text', undef);
    $text =~ s{^/\*+ ?}{};
    $text =~ s{\s*\*/\s*$}{};
    for my $line (split /\n/, $text) {
        $line =~ s/^ \* ?//;
        $line =~ s/\s+$//;
        if ($line =~ /^  ([A-Z][a-z ]+):\s+(.*)/) {
            close_block($comment, $kind, \@lines);
            ($label, $kind) = ($1, 'text');
            $comment->{labels}{$label} = $2;
        } elsif (defined $label && $line =~ /^ {6,}(\S.*)/) {
            $comment->{labels}{$label} .= " $1";
        } elsif ($line eq '') {
            $kind eq 'code' ? push @lines, '' : close_block($comment, $kind, \@lines);
            undef $label;
        } else {
            my $now = $line =~ /^ {4}/ ? 'code' : 'text';
            close_block($comment, $kind, \@lines) if $now ne $kind;
            ($kind, $label) = ($now, undef);
            push @lines, $now eq 'code' ? $line : $line =~ s/^ +//r;
        }
    }
    close_block($comment, $kind, \@lines);
    return $comment;
}

# -- declarations ----------------------------------------------------------------------------------

sub parse_declaration {
    my ($code, $remark) = @_;
    my $declaration = { code => $code, remark => $remark, constants => [] };
    if ($code =~ /^GYRE_API\b.*?\b(gyre_\w+)\s*\(/s) {
        @$declaration{qw(kind name)} = ('call', $1);
        my $margin = length 'GYRE_API ';
        $declaration->{code} =~ s/^GYRE_API //;
        $declaration->{code} =~ s/\n {0,$margin}/\n/g;
    } elsif ($code =~ /^#define\s+(\w+)/) {
        @$declaration{qw(kind name)} = ('macro', $1);
        $declaration->{code} =~ s/ {2,}\\$/ \\/mg;
    } elsif ($code =~ /^typedef\b.*?\(\*(\w+)\)/s || $code =~ /^(?:struct|enum|union)\s+(\w+)/) {
        @$declaration{qw(kind name)} = ('type', $1);
        $declaration->{constants} = [$code =~ /^\s*(GYRE_[A-Z0-9_]+)/mg] if $code =~ /^enum/;
    } else {
        die "what is declared by this: $code\n";
    }
    return $declaration;
}

# Takes one declaration from the lines, with the comment that ends its last line.
sub take_declaration {
    my ($lines) = @_;
    my ($code, $depth) = ('', 0);
    while (@$lines) {
        my $line = shift @$lines;
        $code .= ($code eq '' ? '' : "\n") . $line;
        (my $bare = $line) =~ s{/\*.*?(\*/|$)}{}g;
        $depth += ($bare =~ tr/{//) - ($bare =~ tr/}//);
        last if $code =~ /^#/ ? $line !~ /\\$/ : $depth == 0 && $bare =~ /;\s*$/;
    }
    my $remark = '';
    if ($code !~ /^#/ && $code =~ s{;\s*/\*\s*((?:(?!\*/).)*?)\s*\*/\s*$}{;}s) {
        $remark = $1;
    }
    return parse_declaration($code, $remark);
}

# -- the header ------------------------------------------------------------------------------------

# The lines between the essay and the end, without what only compilers read.
sub bare_lines {
    my ($text) = @_;
    my ($depth, @lines) = (0);
    for my $line (split /\n/, $text) {
        if ($line =~ /^#\s*if/) { $depth++ }
        elsif ($line =~ /^#\s*endif/) { $depth-- }
        elsif ($depth == 1 && $line !~ /^#\s*(include|define \w+_H$)/) { push @lines, $line }
    }
    return @lines;
}

sub take_comment {
    my ($lines) = @_;
    my $text = '';
    while (@$lines) {
        my $line = shift @$lines;
        $text .= "$line\n";
        last if $line =~ m{\*/};
    }
    return $text;
}

# Adds what begins at the first line to the header: a section, a comment, a declaration, or the end
# of an item, for which $open is where declarations go.
sub take_part {
    my ($header, $open, $lines) = @_;
    my $section = $header->{sections}[-1];
    if ($lines->[0] =~ m{^/\* -- (.*?) -+ \*/}) {
        push @{ $header->{sections} }, { title => $1, notes => [], items => [] };
        shift @$lines;
    } elsif ($lines->[0] =~ m{^/\*}) {
        my $comment = parse_comment(take_comment($lines));
        return { comment => $comment, declarations => [] } if @$lines && $lines->[0] ne '';
        push @{ $section->{notes} }, $comment;
    } elsif ($lines->[0] eq '') {
        shift @$lines;
    } else {
        $open ||= { declarations => [] };
        push @{ $section->{items} }, $open if !@{ $open->{declarations} };
        push @{ $open->{declarations} }, take_declaration($lines);
        $open->{section} = $section;
        return $open;
    }
    return undef;
}

# Reads one header. What stands before its first section belongs to a section without a title.
sub read_header {
    my ($path) = @_;
    open my $in, '<:utf8', $path or die "$path: $!\n";
    my $text = do { local $/; <$in> };
    $text =~ s{^(/\*.*?\*/)\n}{}s or die "$path: does not begin with a comment\n";
    my $essay = parse_comment($1);
    my ($stem) = $path =~ m{([^/]+)\.h$};
    my $header = { file => "gyre/$stem.h", stem => $stem, path => $path, essay => $essay,
        sections => [{ title => '', notes => [], items => [] }] };
    my @lines = bare_lines($text);
    my $open;
    $open = take_part($header, $open, \@lines) while @lines;
    $header->{sections} = [grep { @{ $_->{items} } } @{ $header->{sections} }];
    return $header;
}

# "0.1.0", from the macros of the header that has them.
sub version_of {
    my ($header) = @_;
    my %macro = map { $_->{code} =~ /^#define (\w+) (\S+)/ ? ($1 => $2) : () }
        map { @{ $_->{declarations} } } items_of($header);
    return join '.', grep { defined } map { $macro{"GYRE_VERSION_$_"} } qw(MAJOR MINOR PATCH);
}

# Reads all headers, first the one that tells the version, and returns the version before them.
sub read_headers {
    my @headers = map { read_header($_) } @_;
    my ($first, $version) = map { my $v = version_of($_); $v ? ($_, $v) : () } @headers;
    $first or die "no GYRE_VERSION_MAJOR in @_\n";
    return ($version, $first, grep { $_ != $first } @headers);
}

sub items_of {
    return map { @{ $_->{items} } } @{ $_[0]{sections} };
}

# The calls that one item declares.
sub calls_of {
    return grep { $_->{kind} eq 'call' } @{ $_[0]{declarations} };
}

# -- what is said of a call ------------------------------------------------------------------------

# Comments that say something of an item's calls: its own, and its section's notes.
sub said_of {
    my ($item) = @_;
    return grep { defined } $item->{comment}, @{ $item->{section}{notes} };
}

# All promises of an item by their labels: its own, its section's, then those of the call that
# "Otherwise" names. $item_of finds an item by the name of a call.
sub promises {
    my ($item, $item_of, $seen) = @_;
    my %promise;
    my @comments = said_of($item);
    for my $comment (@comments) {
        $promise{$_} //= $comment->{labels}{$_} for keys %{ $comment->{labels} };
    }
    for my $comment (@comments) {
        my ($name) = ($comment->{labels}{Otherwise} // '') =~ /(gyre_\w+)\(\)/;
        next if !$name || $seen->{$name}++;
        my $other = $item_of->{$name} or die "'Otherwise: $name()': there is no such call\n";
        my $theirs = promises($other, $item_of, $seen);
        $promise{$_} //= $theirs->{$_} for keys %$theirs;
    }
    delete $promise{Otherwise};
    s/^(?=[a-z]+[ ,.;:])(.)/\u$1/ for values %promise;
    return \%promise;
}

# The first sentence, as a manual page's line NAME has it. One of more than 90 characters ends at a
# colon or semicolon outside of brackets, if there is one.
sub summary {
    my ($comment) = @_;
    my ($block) = grep { $_->[0] eq 'text' } @{ $comment->{blocks} };
    my $text = $block ? $block->[1] : '';
    $text =~ s/`//g;
    my ($depth, $at, $end) = (0, 0, undef);
    while ($text =~ /([()\[\]]|[.;:?](?= |$))/g) {
        my $mark = $1;
        $at = pos($text) - 1;
        $depth += $mark =~ /[(\[]/ ? 1 : $mark =~ /[)\]]/ ? -1 : 0;
        next if $depth != 0 || $mark =~ /[()\[\]]/;
        last if $mark =~ /[.?]/;
        $end = $at if $at >= 15 && ($at <= 90 || !defined $end);
    }
    $end = $at if !defined $end || ($at <= 90 && substr($text, $at, 1) =~ /[.?]/);
    $text = substr $text, 0, $end if $end;
    $text =~ s/^([A-Z])(?=[a-z-]*[ :])/lc $1/e;
    return $text;
}

1;
