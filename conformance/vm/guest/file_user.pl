# A process with one file: it opens, locks ranges, reads and writes as it is told on its standard input, a line for each order, and says on its standard
# output what came of it, a line for each answer. And `perl file_user.pl race …` and `bump …`, which run against the same at another client.
#
# In Perl, because it has fcntl's locks, which a shell has not, and is among Debian's essential packages.

use strict;
use warnings;
use Errno;
use Fcntl;

# By its number: names beyond the usual ones would need more of Perl in the guest.
my $from_start = 0;

# struct flock on x86-64: type, whence, start, length (0 is up to the end of all files), process.
sub range { pack('s s x4 q q l x4', $_[0], $from_start, $_[1], $_[2], 0) }

my %kinds = (shared => F_RDLCK, exclusive => F_WRLCK, none => F_UNLCK);
my %modes = (read => O_RDONLY, write => O_WRONLY, both => O_RDWR, create => O_RDWR | O_CREAT, exclusive => O_RDWR | O_CREAT | O_EXCL);
my $file;

sub failure { $!{EAGAIN} || $!{EACCES} ? 'denied' : "failed: $!" }

sub lock_range {
    my ($command, $kind, $start, $length) = @_;
    return fcntl($file, $command, range($kinds{$kind}, $start, $length)) ? 'granted' : failure();
}

# What keeps a lock from being granted, or `free`.
sub test_range {
    my ($kind, $start, $length) = @_;
    my $held = range($kinds{$kind}, $start, $length);
    fcntl($file, F_GETLK, $held) or return failure();
    my ($type, undef, $from, $bytes) = unpack('s s x4 q q l x4', $held);
    return 'free' if $type == F_UNLCK;
    return ($type == F_RDLCK ? 'shared' : 'exclusive') . " $from $bytes";
}

sub read_at {
    my ($offset, $length) = @_;
    sysseek($file, $offset, $from_start) or return failure();
    my $count = sysread($file, my $bytes, $length);
    return defined $count ? "read $bytes" : failure();
}

sub write_at {
    my ($offset, $text) = @_;
    sysseek($file, $offset, $from_start) or return failure();
    return defined syswrite($file, $text) ? 'written' : failure();
}

# fsync on x86-64: the method of that name would need more of Perl, too.
my $fsync = 74;

my %orders = (
    open => sub { sysopen($file, $_[1], $modes{$_[0]}) ? 'open' : failure() },
    close => sub { close($file) ? 'closed' : failure() },
    lock => sub { lock_range(F_SETLK, @_) },
    wait => sub { lock_range(F_SETLKW, @_) },
    unlock => sub { lock_range(F_SETLK, 'none', @_) },
    test => \&test_range,
    read => \&read_at,
    write => \&write_at,
    sync => sub { syscall($fsync, fileno($file)) == 0 ? 'synced' : failure() },
    size => sub { my @status = stat($file); @status ? "size $status[7]" : failure() },
    links => sub { my @status = stat($file); @status ? "links $status[3]" : failure() },
);

sub obey {
    $| = 1;
    while (my $line = <STDIN>) {
        my ($order, @words) = split ' ', $line;
        print $orders{$order}->(@words), "\n";
    }
}

# Makes so many names in a folder, each of which only one of all who try may make, and prints those that it made.
sub race {
    my ($kind, $folder, $count, $who) = @_;
    my %makes = (
        create => sub { sysopen(my $made, $_[0], O_WRONLY | O_CREAT | O_EXCL) },
        mkdir => sub { mkdir($_[0]) },
        link => sub { link("$folder/of-$who", $_[0]) },
        symlink => sub { symlink('nowhere', $_[0]) },
    );
    if ($kind eq 'link') { sysopen(my $source, "$folder/of-$who", O_WRONLY | O_CREAT) or die "$!\n" }
    for my $number (1 .. $count) {
        if ($makes{$kind}->("$folder/$kind-$number")) { print "$number\n" }
        elsif (!$!{EEXIST}) { die "$kind $number: $!\n" }
    }
}

# Adds one to the number in a file, so many times, each under a lock of its first bytes, and adds a line to another file under the same lock.
sub bump {
    my ($folder, $count, $who) = @_;
    sysopen($file, "$folder/number", O_RDWR) or die "$!\n";
    for my $turn (1 .. $count) {
        # A client that waits asks again after a second, two, four: so this asks by itself.
        until ((my $said = lock_range(F_SETLK, 'exclusive', 0, 16)) eq 'granted') {
            die "$said\n" if $said ne 'denied';
            select(undef, undef, undef, 0.005);
        }
        my $number = substr(read_at(0, 16), 5) + 1;
        write_at(0, sprintf('%015d ', $number)) eq 'written' or die "$!\n";
        sysopen(my $list, "$folder/list", O_WRONLY | O_APPEND) or die "$!\n";
        syswrite($list, "$number $who $turn\n") or die "$!\n";
        close($list) or die "$!\n";
        lock_range(F_SETLK, 'none', 0, 16) eq 'granted' or die "$!\n";
    }
}

my ($command, @words) = @ARGV;
({ obey => \&obey, race => \&race, bump => \&bump }->{$command // 'obey'})->(@words);
