package egress_test

import (
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host/egress"
)

func TestClassify(t *testing.T) {
	for addr, want := range map[string]egress.Kind{
		"8.8.8.8": egress.Public, "1.1.1.1": egress.Public, "2606:4700::1": egress.Public, "2a00:1450::8": egress.Public,
		"100.63.255.255": egress.Public, "100.128.0.0": egress.Public, "172.15.0.1": egress.Public, "172.32.0.1": egress.Public,
		"::ffff:8.8.8.8": egress.Public, "223.255.255.255": egress.Public, "198.20.0.0": egress.Public,

		"127.0.0.1": egress.Loopback, "127.255.255.254": egress.Loopback, "::1": egress.Loopback, "::ffff:127.0.0.1": egress.Loopback,
		"10.0.0.1": egress.Private, "172.16.0.1": egress.Private, "172.31.255.255": egress.Private, "192.168.1.1": egress.Private,
		"fc00::1": egress.Private, "fd12:3456::1": egress.Private, "fec0::1": egress.Private, "::ffff:10.1.1.1": egress.Private,
		"169.254.1.1": egress.LinkLocal, "fe80::1": egress.LinkLocal, "fe80::1%eth0": egress.LinkLocal, "febf::1": egress.LinkLocal,
		"100.64.0.1": egress.CarrierNAT, "100.127.255.255": egress.CarrierNAT,

		"169.254.169.254": egress.Metadata, "169.254.170.2": egress.Metadata, "169.254.170.23": egress.Metadata,
		"100.100.100.200": egress.Metadata, "168.63.129.16": egress.Metadata, "192.0.0.192": egress.Metadata,
		"fd00:ec2::254": egress.Metadata, "fd00:ec2::23": egress.Metadata, "fd20:ce::254": egress.Metadata,
		"::ffff:169.254.169.254": egress.Metadata, "fe80::a9fe:a9fe": egress.Metadata,

		"224.0.0.1": egress.Multicast, "239.255.255.255": egress.Multicast, "ff02::1": egress.Multicast,
		"0.0.0.0": egress.Unspecified, "::": egress.Unspecified, "::ffff:0.0.0.0": egress.Unspecified,
		"0.1.2.3": egress.Reserved, "240.0.0.1": egress.Reserved, "192.0.0.8": egress.Reserved, "255.255.255.254": egress.Reserved,
		"255.255.255.255": egress.Broadcast,
		"192.0.2.1":       egress.Documentation, "198.51.100.1": egress.Documentation, "203.0.113.1": egress.Documentation,
		"2001:db8::1": egress.Documentation, "3fff::1": egress.Documentation,
		"198.18.0.1": egress.Benchmarking, "198.19.255.255": egress.Benchmarking, "2001:2::1": egress.Benchmarking,

		"::7f00:1": egress.Embedding, "::8.8.8.8": egress.Embedding, "::ffff:0:7f00:1": egress.Embedding,
		"64:ff9b::7f00:1": egress.Embedding, "64:ff9b::808:808": egress.Embedding, "64:ff9b:1::a00:1": egress.Embedding,
		"64:ff9b:1:7f00:0:100::": egress.Embedding, "2002:7f00:1::": egress.Embedding, "2001:0:1::1": egress.Embedding,
		"2a00::5efe:7f00:1": egress.Embedding, "2a00::200:5efe:a00:1": egress.Embedding, "192.88.99.1": egress.Embedding,

		"100::1": egress.Reserved, "2001:10::1": egress.Reserved, "2001:20::1": egress.Reserved, "5f00::1": egress.Reserved,
		"4000::1": egress.Reserved, "e000::1": egress.Reserved,
	} {
		if got := egress.Classify(netip.MustParseAddr(addr)); got != want {
			t.Errorf("Classify(%s) = %s, want %s", addr, got, want)
		}
	}
	if got := egress.Classify(netip.Addr{}); got != egress.Reserved {
		t.Errorf("Classify of no address = %s", got)
	}
}

// Whatever net/netip knows not to be public must not be public here either, in
// each of the forms that the address can take.
func TestClassifyIsNoLaxerThanNetip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawAddr(t)
		v := a.Unmap()
		special := !v.IsGlobalUnicast() || v.IsPrivate() || v.IsLoopback() || v.IsLinkLocalUnicast() || v.IsMulticast() || v.IsUnspecified()
		kind := egress.Classify(a)
		if special && kind == egress.Public {
			t.Fatalf("Classify(%s) = public; netip knows better", a)
		}
		if egress.Classify(v) != kind || egress.Classify(a.WithZone("eth0")) != kind {
			t.Fatalf("%s, unmapped or with a zone, is of another kind than %s", a, kind)
		}
		if a.Is4() && egress.Classify(netip.AddrFrom16(a.As16())) != kind {
			t.Fatalf("%s mapped into IPv6 is of another kind than %s", a, kind)
		}
		if a.Is4() && kind != egress.Public {
			for _, form := range carriers(a) {
				if egress.Classify(form) == egress.Public {
					t.Fatalf("%s carries %s, which is %s, and counts as public", form, a, kind)
				}
			}
		}
	})
}

// carriers are the addresses by which a router or translator reaches a.
func carriers(a netip.Addr) []netip.Addr {
	v := a.As4()
	wrap := func(prefix string, at int) netip.Addr {
		b := netip.MustParseAddr(prefix).As16()
		copy(b[at:], v[:])
		return netip.AddrFrom16(b)
	}
	teredo := netip.MustParseAddr("2001:0:4136:e378::").As16()
	for i := range v {
		teredo[12+i] = ^v[i]
	}
	return []netip.Addr{
		wrap("::ffff:0:0", 12), wrap("::", 12), wrap("::ffff:0:0:0", 12), wrap("64:ff9b::", 12), wrap("64:ff9b:1::", 12),
		wrap("2002::", 2), netip.AddrFrom16(teredo), wrap("2a00::5efe:0:0", 12),
	}
}

func drawAddr(t *rapid.T) netip.Addr {
	if rapid.Bool().Draw(t, "v4") {
		b := rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "bytes")
		b[0] = rapid.SampledFrom([]byte{b[0], 0, 10, 100, 127, 169, 172, 192, 198, 203, 224, 255}).Draw(t, "first")
		return netip.AddrFrom4([4]byte(b))
	}
	b := rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "bytes")
	for i := range rapid.IntRange(0, 15).Draw(t, "zeros") {
		b[i] = 0
	}
	b[0] = rapid.SampledFrom([]byte{b[0], 0, 0x20, 0x2a, 0xfc, 0xfe, 0xff}).Draw(t, "first")
	return netip.AddrFrom16([16]byte(b))
}
