package testkit

import (
	"context"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Offline returns a database of a server that is not there, for what must not need one.
func Offline(t testing.TB) *mongo.Database {
	t.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI("mongodb://127.0.0.1:1"))
	OK(t, err)
	t.Cleanup(func() { _ = client.Disconnect(context.Background()) })
	return client.Database("offline")
}

// Insert inserts documents.
func Insert(t testing.TB, coll *mongo.Collection, docs ...any) {
	t.Helper()
	InsertAll(t, coll, docs)
}

// InsertAll inserts a slice of documents.
func InsertAll[T any](t testing.TB, coll *mongo.Collection, docs []T) {
	t.Helper()
	_, err := coll.InsertMany(t.Context(), docs)
	OK(t, err)
}

// Find returns the documents that match.
func Find[T any](t testing.TB, coll *mongo.Collection, filter any, opts ...options.Lister[options.FindOptions]) []T {
	t.Helper()
	out := []T{}
	cursor, err := coll.Find(t.Context(), filter, opts...)
	if err == nil {
		err = cursor.All(t.Context(), &out)
	}
	OK(t, err)
	return out
}

// Stored returns all documents by _id.
func Stored[T any](t testing.TB, coll *mongo.Collection) []T {
	t.Helper()
	return Find[T](t, coll, bson.D{}, options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}))
}

// One returns the document with this _id.
func One[T any](t testing.TB, coll *mongo.Collection, id any) (doc T) {
	t.Helper()
	OK(t, coll.FindOne(t.Context(), bson.D{{Key: "_id", Value: bson.D{{Key: "$eq", Value: id}}}}).Decode(&doc))
	return doc
}

// Count returns how many documents match.
func Count(t testing.TB, coll *mongo.Collection, filter any) int {
	t.Helper()
	n, err := coll.CountDocuments(t.Context(), filter)
	OK(t, err)
	return int(n)
}

// Update updates the documents that match filter. It ends t if nothing matches.
func Update(t testing.TB, coll *mongo.Collection, filter, update any) {
	t.Helper()
	result, err := coll.UpdateMany(t.Context(), filter, update)
	OK(t, err)
	if result.MatchedCount == 0 {
		t.Fatalf("nothing matches %v", filter)
	}
}

// Untouched fails t if a transaction has left the field by which it locks a document.
func Untouched(t testing.TB, coll *mongo.Collection) {
	t.Helper()
	if n := Count(t, coll, bson.D{{Key: "__touch", Value: bson.D{{Key: "$exists", Value: true}}}}); n != 0 {
		t.Errorf("%d documents with a mark", n)
	}
}

// Unique returns a unique index of one field.
func Unique(field string) mongo.IndexModel {
	return mongo.IndexModel{Keys: bson.D{{Key: field, Value: 1}}, Options: options.Index().SetUnique(true)}
}

// Collections returns the names of the collections of a database.
func Collections(t testing.TB, db *mongo.Database) []string {
	t.Helper()
	names, err := db.ListCollectionNames(t.Context(), bson.D{{Key: "type", Value: "collection"}, {Key: "name", Value: bson.D{{Key: "$not", Value: bson.Regex{Pattern: `^system\.`}}}}})
	OK(t, err)
	return names
}

// Empty empties all collections, and keeps their indexes, which take time to make. Ledgers have none, and a call creates
// them: they are dropped.
func Empty(t testing.TB, db *mongo.Database) {
	t.Helper()
	for _, name := range Collections(t, db) {
		if strings.HasSuffix(name, ".adopt") {
			OK(t, db.Collection(name).Drop(t.Context()))
			continue
		}
		_, err := db.Collection(name).DeleteMany(t.Context(), bson.D{})
		OK(t, err)
	}
}
