# Reads what the tool says of its commands, for what is made of it: manual pages and completion.
#
# `gyre help` lists the commands; `gyre COMMAND --help` is a line "usage: …" and then parts, which
# blank lines separate. A part is flags, a list below a line such as "operations:", examples below
# or behind "examples:", other commands behind "also:", or text.
#
#     {name, about, usage, parts: [{kind: flags, flags} | {kind: list, title, rows} |
#                                  {kind: examples | text, lines}]}
#     flag     {letter, name, value, help}
#     row      [word, what it means]
package commands;
use strict;
use warnings;
use Exporter 'import';
our @EXPORT_OK = qw(read_commands read_settings flags_of rows_of choices_of);

# Runs the tool without the settings of whoever builds.
sub ask {
    my @words = @_;
    delete @ENV{ grep { /^GYRE_/ } keys %ENV };
    open my $out, '-|:utf8', @words or die "$words[0]: $!\n";
    my $text = do { local $/; <$out> };
    close $out or die "`@words` failed: $?\n";
    return $text;
}

sub parse_flag {
    my ($line) = @_;
    $line =~ /^\s+(?:-(\w), )?--([a-z0-9-]+)(?: ([A-Z][A-Z|]*))?\s+(.*)/ or return ();
    return { letter => $1, name => $2, value => $3, help => $4 };
}

# Cuts "  word   what it means" in two.
sub parse_row {
    my ($line) = @_;
    return $line =~ /^\s+(\S.*?)(?:\s{2,}(.*))?$/ ? [$1, $2 // ''] : ();
}

sub parse_part {
    my @lines = split /\n/, $_[0];
    my ($title, $behind) = $lines[0] =~ /^([a-z]+):(?:\s+(.*))?$/;
    if (defined $title) {
        shift @lines;
        unshift @lines, "  $behind" if defined $behind;
    }
    my @flags = map { parse_flag($_) } @lines;
    return { kind => 'flags', flags => \@flags } if @flags;
    return { kind => 'text', lines => \@lines } if !defined $title;
    return { kind => 'examples', lines => [map { s/^\s+//r } @lines] } if $title =~ /^example/;
    return { kind => 'list', title => $title, rows => [map { parse_row($_) } @lines] };
}

sub read_command {
    my ($tool, $name, $about) = @_;
    my ($usage, @parts) = split /\n{2,}/, ask($tool, split(/ /, $name), '--help');
    $usage =~ /^usage: (gyre \Q$name\E\b.*)/s or die "`gyre $name --help` has no line of usage\n";
    my $command = { name => $name, about => $about, usage => $1,
        parts => [map { parse_part($_) } @parts] };
    my @also = grep { $_->[0] !~ /[A-Z]/ } rows_of($command, 'also'); # FILE is no command
    return ($command, map { read_command($tool, $_->[0] =~ s/^gyre //r, $_->[1]) } @also);
}

# The tool itself, whose name is "", and every command but help and version, which take no flags.
sub read_commands {
    my ($tool) = @_;
    my ($about, $usage, @parts) = split /\n{2,}/, ask($tool, 'help');
    my $whole = { name => '', about => $about, usage => $usage =~ s/^usage: //r, parts => [] };
    my ($list, @rest) = @parts;
    push @{ $whole->{parts} },
        { kind => 'list', title => 'commands', rows => [map { parse_row($_) } split /\n/, $list] },
        map { parse_part($_) } @rest;
    my @commands = map { read_command($tool, @$_) }
        grep { $_->[0] !~ /^(help|version)$/ } rows_of($whole, 'commands');
    @commands or die "`$tool help` lists no command\n";
    return ($whole, @commands);
}

# What `gyre show env` knows of each setting: its name, its default, what it means.
sub read_settings {
    my ($tool) = @_;
    my $string = qr/"((?:[^"\\]|\\.)*)"/;
    my @settings = ask($tool, qw(show env --json)) =~
        /"name":$string,"value":$string,.*"meaning":$string/g;
    s/\\(["\\])/$1/g for @settings;
    return map { [@settings[3 * $_ .. 3 * $_ + 2]] } 0 .. @settings / 3 - 1;
}

sub flags_of {
    return map { @{ $_->{flags} || [] } } @{ $_[0]{parts} };
}

sub rows_of {
    my ($command, $title) = @_;
    return map { @{ $_->{rows} } } grep { ($_->{title} // '') eq $title } @{ $command->{parts} };
}

# The words that a flag's help lists: "adam", "adamw" of "sgd, adam or adamw (sgd)".
sub choices_of {
    my ($flag) = @_;
    my $words = qr/(?:[a-z0-9-]+, )*[a-z0-9-]+ or [a-z0-9-]+/;
    return if ($flag->{value} // '') !~ /^(NAME|TYPE)$/;
    return $flag->{help} =~ /(?:^|: )($words)(?= \(|[;:]|$)/ ? split(/, | or /, $1) : ();
}

1;
