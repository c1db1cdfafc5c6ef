//go:build unix

package adoption_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// model is what a collection of plain documents holds by the acknowledged operations.
type model struct {
	coll *mongo.Collection
	mu   sync.Mutex
	all  []*record
}

// record is a document, nil if it was deleted. Its lock is held by who writes it, so that the
// model has the operations in the server's order; those that commute share it.
type record struct {
	lock sync.RWMutex
	id   any
	doc  bson.M
	tags map[string]any // what a pattern keeps beside it
	did  []string       // what was done to it, for who looks for a difference
}

// note adds an operation to what was done to a document.
func (m *model) note(c *client, r *record, name string, err error) {
	if err == nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		r.did = append(r.did, fmt.Sprintf("%c: %s, then %.200s", c.name, name, show(r.doc)))
	}
}

// seed inserts documents of before the adoption.
func (m *model) seed(w *world, docs ...bson.M) {
	w.t.Helper()
	if len(m.all) == 0 {
		w.models = append(w.models, m)
	}
	for _, doc := range docs {
		m.all = append(m.all, &record{id: doc["_id"], doc: normal(doc).(bson.M), tags: map[string]any{}})
		if _, err := m.coll.InsertOne(w.t.Context(), doc); err != nil {
			w.t.Fatal(err)
		}
	}
}

// take is a document that fits, and that nobody else writes.
func (m *model) take(c *client, fits func(*record) bool) (*record, func(), error) {
	return m.lock(c, fits, (*sync.RWMutex).TryLock, (*sync.RWMutex).Unlock)
}

// share is a document that fits, for an operation that commutes with other shared ones.
func (m *model) share(c *client, fits func(*record) bool) (*record, func(), error) {
	return m.lock(c, fits, (*sync.RWMutex).TryRLock, (*sync.RWMutex).RUnlock)
}

func (m *model) lock(c *client, fits func(*record) bool, try func(*sync.RWMutex) bool, release func(*sync.RWMutex)) (*record, func(), error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for range 20 {
		if len(m.all) == 0 {
			break
		}
		r := m.all[c.IntN(len(m.all))]
		if !try(&r.lock) {
			continue
		}
		if fits(r) {
			return r, func() { release(&r.lock) }, nil
		}
		release(&r.lock)
	}
	return nil, nil, errNothing
}

func alive(r *record) bool { return r.doc != nil }

// insert stores a new document, or one that was deleted anew.
func (m *model) insert(ctx context.Context, doc bson.M) error {
	if _, err := m.coll.InsertOne(ctx, doc); err != nil {
		return err
	}
	m.put(doc)
	return nil
}

// put notes a document that was inserted.
func (m *model) put(doc bson.M) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = append(m.all, &record{id: doc["_id"], doc: normal(doc).(bson.M), tags: map[string]any{}})
}

// revive inserts a document whose _id was deleted.
func (m *model) revive(ctx context.Context, r *record, doc bson.M) error {
	doc["_id"] = r.id
	_, err := m.coll.InsertOne(ctx, doc)
	if err == nil {
		m.set(r, doc)
	}
	return err
}

func (m *model) replace(ctx context.Context, r *record, doc bson.M) error {
	doc["_id"] = r.id
	result, err := m.coll.ReplaceOne(ctx, bson.D{{Key: "_id", Value: r.id}}, doc)
	if err == nil && result.MatchedCount != 1 {
		err = errors.New("the document is gone")
	}
	if err == nil {
		m.set(r, doc)
	}
	return err
}

func (m *model) remove(ctx context.Context, r *record) error {
	result, err := m.coll.DeleteOne(ctx, bson.D{{Key: "_id", Value: r.id}})
	if err == nil && result.DeletedCount != 1 {
		err = errors.New("the document is gone")
	}
	if err == nil {
		m.set(r, nil)
	}
	return err
}

// update is an update of old code, which the model follows.
func (m *model) update(ctx context.Context, r *record, update bson.D) error {
	result, err := m.coll.UpdateOne(ctx, bson.D{{Key: "_id", Value: r.id}}, update)
	if err == nil && result.MatchedCount != 1 {
		err = errors.New("the document is gone")
	}
	if err == nil {
		m.follow(r, update)
	}
	return err
}

// follow applies an update that was acknowledged.
func (m *model) follow(r *record, update bson.D) {
	m.mu.Lock()
	defer m.mu.Unlock()
	apply(r.doc, update)
}

func (m *model) set(r *record, doc bson.M) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.doc = nil; doc != nil {
		r.doc = normal(doc).(bson.M)
	}
}

// living are the documents, and gone the _ids without one.
func (m *model) living() (out []*record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.all {
		if r.doc != nil {
			out = append(out, r)
		}
	}
	return out
}

// apply is what the server does for the operators that the clients use. $pull takes equal
// elements, or those that have the fields of a document.
func apply(doc bson.M, update bson.D) {
	for _, operator := range update {
		for _, e := range operator.Value.(bson.D) {
			names := strings.Split(e.Key, ".")
			at := doc
			for _, name := range names[:len(names)-1] {
				next, ok := at[name].(bson.M)
				if !ok {
					if operator.Key == "$unset" || operator.Key == "$pull" {
						at = bson.M{}
						break
					}
					next = bson.M{}
					at[name] = next
				}
				at = next
			}
			last, value := names[len(names)-1], normal(e.Value)
			switch operator.Key {
			case "$set":
				at[last] = value
			case "$unset":
				delete(at, last)
			case "$inc":
				n, _ := at[last].(int32)
				at[last] = n + value.(int32)
			case "$push":
				list, _ := at[last].(bson.A)
				at[last] = append(slices.Clone(list), value)
			case "$pull":
				if list, ok := at[last].(bson.A); ok {
					at[last] = bson.A(slices.DeleteFunc(slices.Clone(list), func(have any) bool { return matches(have, value) }))
				}
			default:
				panic(operator.Key)
			}
		}
	}
}

func matches(have, want any) bool {
	fields, ok := want.(bson.M)
	if !ok {
		return reflect.DeepEqual(have, want)
	}
	doc, ok := have.(bson.M)
	if !ok {
		return false
	}
	for name, value := range fields {
		if !reflect.DeepEqual(doc[name], value) {
			return false
		}
	}
	return true
}

// normal is a value with one Go type for each BSON type.
func normal(v any) any {
	switch v := v.(type) {
	case bson.D:
		out := bson.M{}
		for _, e := range v {
			out[e.Key] = normal(e.Value)
		}
		return out
	case bson.M:
		out := bson.M{}
		for k, e := range v {
			out[k] = normal(e)
		}
		return out
	case bson.A:
		out := bson.A{}
		for _, e := range v {
			out = append(out, normal(e))
		}
		return out
	case bson.RawValue:
		var out any
		if err := v.Unmarshal(&out); err != nil {
			panic(err)
		}
		return normal(out)
	case int:
		return int32(v)
	}
	return v
}

// without is a copy of a document without some fields.
func without(doc bson.M, fields ...string) bson.M {
	out := normal(doc).(bson.M)
	for _, f := range fields {
		delete(out, f)
	}
	return out
}

// failures are the differences of each test so far.
var failures sync.Map

// differ reports a difference, and ends the test at the third.
func differ(t *testing.T, format string, args ...any) {
	t.Helper()
	t.Errorf(format, args...)
	n, _ := failures.LoadOrStore(t, new(int))
	if *n.(*int)++; *n.(*int) == 3 {
		t.FailNow()
	}
}

// same compares documents.
func same(t *testing.T, what string, have, want any) {
	t.Helper()
	if have, want = normal(have), normal(want); !reflect.DeepEqual(have, want) {
		differ(t, "%s: have\n\t%.700s\nwant\n\t%.700s", what, show(have), show(want))
	}
}

func show(v any) string {
	out, err := bson.MarshalExtJSON(bson.D{{Key: "v", Value: v}}, false, false)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(out)
}

// read is a collection by _id.
func read(t *testing.T, coll *mongo.Collection) map[any]bson.M {
	t.Helper()
	cursor, err := coll.Find(t.Context(), bson.D{})
	var docs []bson.M
	if err == nil {
		err = cursor.All(t.Context(), &docs)
	}
	if err != nil {
		t.Fatal(err)
	}
	out := map[any]bson.M{}
	for _, doc := range docs {
		out[fmt.Sprint(doc["_id"])] = normal(doc).(bson.M)
	}
	return out
}
