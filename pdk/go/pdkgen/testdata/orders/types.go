// Package orders has structs of every kind that pdkgen reads.
package orders

import "github.com/agenthost/agenthost/pdk/go/pdk"

// State says where an order is.
type State string

// ShipArgs are the arguments of the tool ship.
//
// pdk:typed
type ShipArgs struct {
	Order   int    `json:"order" min:"1"`          // The number of the order.
	Carrier string `json:"carrier" maxLength:"80"` // Who takes it.
	Express bool   `json:"express,omitempty"`
	// Weight is in kilograms.
	Weight float64 `json:"weight,omitempty"`
	State  State   `json:"state,omitempty" enum:"new,paid"`

	Lines   []Line            `json:"lines,omitempty" maxItems:"100"`
	Labels  map[string]string `json:"labels,omitempty"`
	Gift    *Gift             `json:"gift"`
	Matrix  [][]uint8         `json:"matrix,omitempty"`
	Extra   pdk.Raw           `json:"extra,omitempty"`
	Private string            `json:"-"`
}

// Line is a line of an order.
type Line struct {
	SKU   string `json:"sku"`
	Count int32  `json:"count"`
}

// Gift is how an order is wrapped.
type Gift struct {
	Note *string `json:"note"`
}

// Config is the configuration of the plugin.
//
// pdk:typed
type Config struct {
	Carriers []string `json:"carriers,omitempty"`
	Limit    int      `json:"limit"`
}
