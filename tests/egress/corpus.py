"""Notations of this machine, its network, and reserved addresses: each must be refused for user-supplied URLs.

`{port}` is where a real server listens, on 127.0.0.1 and on ::1; it must see no connection.
"""

from __future__ import annotations

HOSTS = (
    # this machine, literally
    "127.0.0.1", "127.255.255.254", "127.1", "127.0.1", "localhost", "LOCALHOST", "localhost.", "127.0.0.1.",
    "0.0.0.0", "0", "[::1]", "[::]", "[0:0:0:0:0:0:0:1]", "[::1%25lo]", "ip6-localhost",  # noqa: S104 - nothing is bound
    # in other notations
    "2130706433", "0x7f000001", "0x7f.0.0.1", "0x7f.1", "0177.0.0.1", "017700000001", "00000177.0.0.1", "127.0.0.0x1",
    "①②⑦.⓪.⓪.①", "127。0。0。1", "\uff11\uff12\uff17.0.0.1", "1\uff127.0.0.1", "٢١٣٠٧٠٦٤٣٣",
    # embedded in another address
    "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:7f00:0001]", "[::127.0.0.1]", "[64:ff9b::7f00:1]",
    "[64:ff9b::127.0.0.1]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[2001:0:7f00:1::]", "[::ffff:0:127.0.0.1]",
    "[2606:4700::5efe:7f00:1]", "[::ffff:0.0.0.0]",
    # private networks
    "169.254.169.254", "169.254.0.1", "[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]", "2852039166", "0xa9fea9fe",
    "[fe80::1]", "[fe80::a9fe:a9fe]", "10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.0.1",
    "100.64.0.1", "[fd00::1]", "[fd00:ec2::254]", "[fc00::1]", "[fec0::1]", "[::ffff:10.0.0.1]", "[2002:a00:1::]",
    # reserved
    "192.0.0.192", "168.63.129.16", "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1",
    "239.255.255.255", "240.0.0.1", "255.255.255.255",
    "[ff02::1]", "[2001:db8::1]", "[100::1]", "[3fff::1]", "192.88.99.1",
)  # fmt: skip

TRICKS = (
    "http://127.0.0.1:{port}/", "HTTP://127.0.0.1:{port}", "http://h.test@127.0.0.1:{port}/",
    "http://127.0.0.1:{port}@h.test/", "http://a:b@127.0.0.1:{port}/", "http://h.test:80@127.0.0.1:{port}/",
    "http://127.0.0.1:{port}\\@h.test/", "http://h.test\\@127.0.0.1:{port}/", "http://127.0.0.1:{port}#@h.test/",
    "http://127.0.0.1:{port}?@h.test/", "http:////127.0.0.1:{port}/", "http:/127.0.0.1:{port}/",
    "http://%31%32%37.0.0.1:{port}/", "http://127.0.0.1%00.example.com:{port}/", "http://[::ffff:127.0.0.1]:{port}/",
    "http://127.0.0.1:0{port}/", "http://127.0.0.1\t:{port}/", "http://127.0.0.1:{port}/\r\nHost: x",
    "http:\\\\127.0.0.1:{port}\\", "\thttp://127.0.0.1:{port}/", "http://127.0.0.1 :{port}/",
    "file:///etc/passwd", "gopher://127.0.0.1:{port}/_x", "ftp://127.0.0.1:{port}/", "dict://127.0.0.1:{port}/",
    "unix:///run/docker.sock", "data:text/plain,x", "//127.0.0.1:{port}/", "127.0.0.1:{port}", "http://", "",
)  # fmt: skip

URLS = (*(f"http://{host}:{{port}}/" for host in HOSTS), *(f"https://{host}:{{port}}/" for host in HOSTS[:4]), *TRICKS)
