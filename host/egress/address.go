package egress

import (
	"net/netip"
	"slices"
)

// Kind is the kind of an address; only [Public] ones are dialed without a
// grant.
type Kind string

// The kinds of addresses.
const (
	Public        Kind = "public"
	Loopback      Kind = "loopback"
	Private       Kind = "private"
	LinkLocal     Kind = "link-local"
	CarrierNAT    Kind = "carrier-NAT"
	Metadata      Kind = "metadata"
	Multicast     Kind = "multicast"
	Unspecified   Kind = "unspecified"
	Broadcast     Kind = "broadcast"
	Documentation Kind = "documentation"
	Benchmarking  Kind = "benchmarking"
	Embedding     Kind = "embedding" // carries an IPv4 address: mapped, NAT64, 6to4, Teredo, ISATAP
	Reserved      Kind = "reserved"  // everything else that is not the public internet
	Own           Kind = "own"       // a public address of this very machine
)

// kindRange is a row of the tables below; the first that contains an address
// decides its kind.
type kindRange struct {
	prefix netip.Prefix
	kind   Kind
}

// ranges4 and ranges6 are those of the IANA special-purpose registries, and the
// metadata services of clouds, which stand first: some of them lie at addresses
// that look public.
var ranges4 = []kindRange{
	{netip.MustParsePrefix("169.254.169.254/32"), Metadata}, // most clouds
	{netip.MustParsePrefix("169.254.169.253/32"), Metadata}, // resolver beside it
	{netip.MustParsePrefix("169.254.170.2/32"), Metadata},   // container credentials
	{netip.MustParsePrefix("169.254.170.23/32"), Metadata},  // pod credentials
	{netip.MustParsePrefix("100.100.100.200/32"), Metadata},
	{netip.MustParsePrefix("168.63.129.16/32"), Metadata},
	{netip.MustParsePrefix("192.0.0.192/32"), Metadata},
	{netip.MustParsePrefix("0.0.0.0/32"), Unspecified},
	{netip.MustParsePrefix("0.0.0.0/8"), Reserved}, // "this network": Linux dials itself
	{netip.MustParsePrefix("10.0.0.0/8"), Private},
	{netip.MustParsePrefix("100.64.0.0/10"), CarrierNAT},
	{netip.MustParsePrefix("127.0.0.0/8"), Loopback},
	{netip.MustParsePrefix("169.254.0.0/16"), LinkLocal},
	{netip.MustParsePrefix("172.16.0.0/12"), Private},
	{netip.MustParsePrefix("192.0.0.0/24"), Reserved},
	{netip.MustParsePrefix("192.0.2.0/24"), Documentation},
	{netip.MustParsePrefix("192.31.196.0/24"), Reserved},
	{netip.MustParsePrefix("192.52.193.0/24"), Reserved},
	{netip.MustParsePrefix("192.88.99.0/24"), Embedding}, // 6to4 relays
	{netip.MustParsePrefix("192.168.0.0/16"), Private},
	{netip.MustParsePrefix("192.175.48.0/24"), Reserved},
	{netip.MustParsePrefix("198.18.0.0/15"), Benchmarking},
	{netip.MustParsePrefix("198.51.100.0/24"), Documentation},
	{netip.MustParsePrefix("203.0.113.0/24"), Documentation},
	{netip.MustParsePrefix("224.0.0.0/4"), Multicast},
	{netip.MustParsePrefix("255.255.255.255/32"), Broadcast},
	{netip.MustParsePrefix("240.0.0.0/4"), Reserved},
}

var ranges6 = []kindRange{
	{netip.MustParsePrefix("fd00:ec2::/32"), Metadata},
	{netip.MustParsePrefix("fd20:ce::254/128"), Metadata},
	{netip.MustParsePrefix("fe80::a9fe:a9fe/128"), Metadata},
	{netip.MustParsePrefix("::/128"), Unspecified},
	{netip.MustParsePrefix("::1/128"), Loopback},
	{netip.MustParsePrefix("::/80"), Embedding},         // IPv4-compatible
	{netip.MustParsePrefix("::ffff:0:0/96"), Embedding}, // mapped; as an address of its own, which Unmap has taken care of
	{netip.MustParsePrefix("::ffff:0:0:0/96"), Embedding},
	{netip.MustParsePrefix("64:ff9b::/96"), Embedding},
	{netip.MustParsePrefix("64:ff9b:1::/48"), Embedding},
	{netip.MustParsePrefix("fc00::/7"), Private},
	{netip.MustParsePrefix("fe80::/10"), LinkLocal},
	{netip.MustParsePrefix("fec0::/10"), Private}, // site-local
	{netip.MustParsePrefix("ff00::/8"), Multicast},
	{netip.MustParsePrefix("2001::/32"), Embedding}, // Teredo
	{netip.MustParsePrefix("2001:2::/48"), Benchmarking},
	{netip.MustParsePrefix("2001::/23"), Reserved},
	{netip.MustParsePrefix("2001:db8::/32"), Documentation},
	{netip.MustParsePrefix("2002::/16"), Embedding}, // 6to4
	{netip.MustParsePrefix("3fff::/20"), Documentation},
}

// global6 is the part of IPv6 that is allocated to the public internet: an
// address outside is not public, even if no list here names it.
var global6 = netip.MustParsePrefix("2000::/3")

// Classify returns the kind of a. An IPv4-mapped address is the IPv4 address
// that it maps; the zero Addr is [Reserved].
func Classify(a netip.Addr) Kind {
	a = a.Unmap().WithZone("")
	if !a.IsValid() {
		return Reserved
	}
	table := ranges6
	if a.Is4() {
		table = ranges4
	}
	for _, r := range table {
		if r.prefix.Contains(a) {
			return r.kind
		}
	}
	switch {
	case a.Is4():
		return Public
	case !global6.Contains(a):
		return Reserved
	case isISATAP(a):
		return Embedding
	}
	return Public
}

// isISATAP reports whether a's interface identifier is made of an IPv4 address.
func isISATAP(a netip.Addr) bool {
	b := a.As16()
	return b[8]&^0x02 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe
}

// embedded returns the IPv4 address that an [Embedding] address carries, if it
// carries one that is known.
func embedded(a netip.Addr) (netip.Addr, bool) {
	if !a.Is6() || Classify(a) != Embedding {
		return netip.Addr{}, false
	}
	b := a.As16()
	var at [4]byte
	switch {
	case b[0] == 0x20 && b[1] == 0x02: // 6to4
		copy(at[:], b[2:6])
	case b[0] == 0x20 && b[1] == 0x01: // Teredo: the client's, inverted
		for i := range at {
			at[i] = ^b[12+i]
		}
	case netip.AddrFrom4([4]byte(b[12:16])).IsUnspecified(): // NAT64 with a prefix of 48 bits
		at = [4]byte{b[6], b[7], b[9], b[10]}
	default: // compatible, translated, NAT64 with one of 96, ISATAP
		copy(at[:], b[12:16])
	}
	return netip.AddrFrom4(at), true
}

// permitted reports whether a may be dialed by a rule that grants those ranges.
func permitted(a netip.Addr, granted []netip.Prefix, own func(netip.Addr) bool) (Kind, bool) {
	a = a.Unmap().WithZone("")
	kind := Classify(a)
	if kind == Public && own(a) {
		kind = Own
	}
	if kind == Public {
		return kind, true
	}
	covered := slices.ContainsFunc(granted, func(p netip.Prefix) bool {
		return p.Contains(a) && (kind != Metadata || p.IsSingleIP())
	})
	if !covered {
		return kind, false
	}
	if inner, ok := embedded(a); ok {
		if innerKind, ok := permitted(inner, granted, own); !ok {
			return innerKind, false
		}
	}
	return kind, true
}
