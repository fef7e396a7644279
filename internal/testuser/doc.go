// Package testuser lets a test run as a user for whom the permissions of files count.
package testuser
