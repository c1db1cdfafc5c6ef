// Package sent shows tests the commands that clients of mongotest send.
package sent

import "go.mongodb.org/mongo-driver/v2/event"

// Watch is called with each command before it is sent, in the goroutine that sends it. A TestMain sets it. Default nil.
var Watch func(*event.CommandStartedEvent)
