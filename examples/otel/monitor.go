// Package otel shows the calls of this library in OpenTelemetry: each command is a span below that of the service's own
// call, and names the call of the library that sent it. Copy monitor.go into a service. It is a module of its own, so that
// the library does not depend on OpenTelemetry.
package otel

import (
	"context"
	"errors"
	"strings"
	"sync"

	"go.mongodb.org/mongo-driver/v2/event"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Monitor returns a monitor for options.Client().SetMonitor. A span has the name of the command and its collection, and no
// values of documents.
func Monitor(tracer trace.Tracer) *event.CommandMonitor {
	var open sync.Map // command -> trace.Span
	end := func(e event.CommandFinishedEvent, err error) {
		found, ok := open.LoadAndDelete(command{e.ConnectionID, e.RequestID})
		if !ok {
			return
		}
		span := found.(trace.Span)
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
	return &event.CommandMonitor{
		Started: func(ctx context.Context, e *event.CommandStartedEvent) {
			name := e.CommandName
			attributes := []attribute.KeyValue{
				attribute.String("db.system.name", "mongodb"),
				attribute.String("db.namespace", e.DatabaseName),
				attribute.String("db.operation.name", e.CommandName),
			}
			if collection, ok := e.Command.Lookup(e.CommandName).StringValueOK(); ok {
				name += " " + collection
				attributes = append(attributes, attribute.String("db.collection.name", collection))
			}
			comment, _ := e.Command.Lookup("comment").StringValueOK()
			if call, ours := strings.CutPrefix(comment, "mongopatterns "); ours {
				attributes = append(attributes, attribute.String("mongopatterns.call", call))
			}
			_, span := tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attributes...))
			open.Store(command{e.ConnectionID, e.RequestID}, span)
		},
		Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) { end(e.CommandFinishedEvent, nil) },
		Failed: func(_ context.Context, e *event.CommandFailedEvent) {
			end(e.CommandFinishedEvent, errors.Join(errors.New(e.CommandName+" failed"), e.Failure))
		},
	}
}

// command is one that has no answer yet.
type command struct {
	connection string
	request    int64
}
