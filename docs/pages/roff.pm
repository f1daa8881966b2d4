# Writes manual pages: text with the marks of roff, which both groff and mandoc read.
package roff;
use strict;
use warnings;
use POSIX 'strftime';
use Exporter 'import';
our @EXPORT_OK = qw(roff_code roff_text page_head section paragraph example write_page date_of);

# Words as they stand: no mark in them is one of roff's.
sub roff_code {
    my ($text) = @_;
    $text =~ s/\\/\\e/g;
    $text =~ s/-/\\-/g;
    $text =~ s/^([.'])/\\&$1/mg;
    $text =~ s/([^\x00-\x7f])/sprintf '\\[u%04X]', ord $1/ge;
    return $text;
}

# Words of a sentence: `code` is bold, and so are calls, pages of their own.
sub roff_text {
    my ($text) = @_;
    my @parts = split /(`[^`]*`|\bgyre_\w+\(\))/, $text;
    for (@parts) {
        if (/^`(.*)`$/) { $_ = '\fB' . roff_code($1) . '\fR' }
        elsif (/^(gyre_\w+)\(\)$/) { $_ = "\\fB$1\\fR(3)" }
        else { $_ = roff_code($_) =~ s/(?<=\w)\\-(?=\w)/-/gr }
    }
    return join '', @parts;
}

sub date_of {
    my $newest = 0;
    for (@_) {
        my $time = (stat $_)[9] // die "$_: $!\n";
        $newest = $time if $time > $newest;
    }
    return strftime '%Y-%m-%d', gmtime($ENV{SOURCE_DATE_EPOCH} || $newest);
}

sub page_head {
    my ($name, $number, $date, $version) = @_;
    return ".TH $name $number $date \"Gyre $version\" \"Gyre manual\"\n";
}

sub section {
    my ($title) = @_;
    return ".SH " . uc($title) . "\n";
}

sub paragraph {
    my ($text) = @_;
    return ".PP\n" . roff_text($text) =~ s/(?<=[.:;?]) +(?=\S)/\n/gr =~ s/^([.'])/\\&$1/mgr . "\n";
}

sub example {
    my ($text) = @_;
    return ".PP\n.RS 4\n.EX\n" . roff_code($text) . "\n.EE\n.RE\n";
}

# A paragraph behind a heading needs no .PP.
sub write_page {
    my ($path, $text) = @_;
    $text =~ s/^(\.SH .*\n)\.PP\n/$1/mg;
    open my $out, '>:utf8', $path or die "$path: $!\n";
    print $out $text;
    close $out or die "$path: $!\n";
}

1;
