// Package usagereport counts the calls of plugins. In goes the cost of each call, with its
// tenant, plugin and export; out comes a report by tenant, plugin and export, a difference
// of two reports, or a sum over some of the three.
//
// It promises that counting allocates nothing, that the memory of a [Book] is bounded
// whatever names tenants and plugins have, and that no call is lost: those beyond a bound
// are summed under [OtherTenants].
package usagereport
