package httpapi

// AuditAction returns the action of an operation in the audit log, and whether it has one.
func AuditAction(a *API, operation string) (action string, written bool) {
	for _, r := range a.routes {
		if r.id == operation {
			return r.audit, r.audit != ""
		}
	}
	return "", false
}
