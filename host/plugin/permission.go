package plugin

import "github.com/agenthost/agenthost/host/plugin/permission"

// Permissions are the rights that a plugin asks for in its manifest, and that an
// operator grants when loading it: see [permission.Set]. The zero value allows nothing.
type Permissions = permission.Set

// HTTPAccess allows requests to one server: see [permission.HTTP].
type HTTPAccess = permission.HTTP

// SecretAccess allows a secret to be sent to some hosts: see [permission.Secret].
type SecretAccess = permission.Secret

// Access is none, read or write; write includes read, "" is none.
type Access = permission.Access

// The kinds of access.
const (
	None  = permission.None
	Read  = permission.Read
	Write = permission.Write
)
