package otel_test

import (
	"context"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/mongopatterns/mongopatterns/examples/otel"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/subset"
)

func TestMain(m *testing.M) { mongotest.Main(m) }

// The commands of a call lie below the span of the service's call, and each names the call of the library.
func TestMonitor(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	tracer := trace.NewTracerProvider(trace.WithSyncer(spans)).Tracer("shop")
	db := mongotest.Database(t, options.Client().SetMonitor(otel.Monitor(tracer)))
	products := db.Collection("products")
	reviews, err := subset.New[int, bson.D](products, db.Collection("reviews"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := products.InsertOne(t.Context(), bson.D{{Key: "_id", Value: 1}}); err != nil {
		t.Fatal(err)
	}
	spans.Reset()

	handle := func(name string, call func(ctx context.Context) error) tracetest.SpanStubs {
		defer spans.Reset()
		ctx, span := tracer.Start(t.Context(), name)
		err := call(ctx)
		span.End()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return spans.GetSpans()
	}
	got := handle("POST /reviews", func(ctx context.Context) error {
		_, err := reviews.Insert(ctx, 1, bson.D{{Key: "_id", Value: 7}})
		return err
	})
	service := got[len(got)-1]
	var names []string
	for _, s := range got[:len(got)-1] {
		names = append(names, s.Name)
		if s.Parent.SpanID() != service.SpanContext.SpanID() {
			t.Errorf("%s is not below %s", s.Name, service.Name)
		}
		call := attribute.String("mongopatterns.call", "subset.Insert")
		if s.Name != "commitTransaction" && !slices.Contains(s.Attributes, call) {
			t.Errorf("%s does not name its call: %v", s.Name, s.Attributes)
		}
	}
	if !slices.Contains(names, "insert reviews") {
		t.Errorf("the commands are %v", names)
	}

	got = handle("POST /products", func(ctx context.Context) error {
		_ = products.FindOne(ctx, bson.D{{Key: "$unknown", Value: 1}}).Err()
		return nil
	})
	if s := got[0]; s.Name != "find products" || s.Status.Code != codes.Error {
		t.Errorf("a command that failed is %s: %v", s.Name, s.Status)
	}
}
