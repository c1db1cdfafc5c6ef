package extref

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/fieldpath"
	"github.com/mongopatterns/mongopatterns/internal/hold"
	"github.com/mongopatterns/mongopatterns/internal/scope"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
)

// Options says how the source is kept and who propagates. With the zero value the source
// has a version in "version", and Update propagates in the transaction of the change.
type Options struct {
	// KeyField is the source's field that copies refer to. It may be dotted. A natural key, such as
	// "catalog_number", gets a unique index, and all calls then take this key as ID. A source
	// without the field has no copies. Default "_id".
	KeyField string
	// VersionField is the source's field for the version, without dots. A version is a whole number
	// from 0 to math.MaxInt64-1. A missing or null version counts as 0. The field is not used if
	// every target is Unversioned. Default "version".
	VersionField string

	// Outbox makes Update write an entry to this collection instead of propagating. Call Drain to
	// propagate. The collection serves only this source, because an entry's _id is the source's
	// key, or with a Scope a document of the Scope and the key. On a sharded cluster create it beforehand. Default nil.
	Outbox *mongo.Collection
	// Lease is how long other workers leave alone an entry that a worker is propagating. If the
	// work takes longer, it is done twice, which does no harm. It is between 1 millisecond and 24
	// hours. Default 1 minute.
	Lease time.Duration
	// Deferred makes Update change only the source; Watch or Propagate does the rest. It cannot
	// be combined with Outbox. Default false.
	Deferred bool

	// Scope separates several tenants in the same collections. See Tenants in the manual of mongopatterns. Its fields
	// are part of every filter, in the source, the targets, the outbox and the tokens of Watch, and start every index.
	// Your own code stores them in sources and targets. The values are strings, numbers and similar. Null, an array or
	// a regular expression is refused. An update with another value is ErrInvalid, and a source of another tenant is not
	// found, also by a copy that refers to it. Default none: all documents of the collections.
	Scope bson.D

	// Registry and BSON encode IDs, sources and updates. By default BSON is what the client has. The client's registry
	// cannot be read, so if it has one of its own, set Registry; EnsureIndexes compares the two. Default nil: the
	// driver's.
	Registry *bson.Registry
	BSON     *options.BSONOptions
}

// A Target is a place for copies in the documents of a collection. All paths may be dotted,
// but must not lead through an array. Two targets of a collection must not overlap, but they may have the same array.
type Target struct {
	// Collection holds the copies. It may be the source's own. Required.
	Collection *mongo.Collection
	// Path is the path of a document's copy, or with Array of its array of copies. Default "":
	// the copy's fields are among the document's own.
	Path string
	// Array says that Path holds an array of copies, possibly several of one source.
	Array bool

	// IDField is the path of the source's key inside the copy. Default "_id"; required with
	// Path "".
	IDField string
	// VersionField is the path of the version inside the copy. Default: Options.VersionField.
	VersionField string
	// Unversioned leaves the version out of the copies; the package documentation says what
	// that costs. Default false.
	Unversioned bool

	// Fields are the fields that are copied. Required.
	Fields []Field
	// OnDelete says what Delete does with copies of the source. Restrict refuses while another
	// document refers to the source, also if that reference is malformed. Unlink removes the copy:
	// the field at Path, or with Path "" the copy's fields, or elements of the array. Cascade
	// deletes the documents with a copy, but not documents that refer to these; it is not allowed
	// with Array. Keep leaves the copy unchanged. If a source is inserted later with the same key,
	// its version must be higher than the copy's; Repair sees to that. Default Restrict.
	OnDelete mongopatterns.DeletePolicy
	// Name identifies the target in calls. Default: the collection's name, a dot and Path
	// ("orders.customer"); with Path "" the collection's name alone.
	Name string
}

// A Field is a field of the source that is copied.
type Field struct {
	// Path is the field in the source. A source with an array on the way to it is refused
	// with ErrInvalid. Required.
	Path string
	// As is the path inside the copy. Default: the last segment of Path.
	As string
	// Frozen keeps the value that the source had when the copy was made. Default false: the copy
	// follows changes.
	Frozen bool
}

// configure checks options and targets, completes them, and makes the core.
func configure(source *mongo.Collection, targets []Target, opts *Options) (*core, error) {
	c := &core{}
	o := &c.o
	if opts != nil {
		*o = *opts
	}
	o.Scope = slices.Clone(o.Scope)
	known := []any{"source", source}
	if o.Outbox != nil {
		known = append(known, "Options.Outbox", o.Outbox)
	}
	if err := config.Collections(known...); err != nil {
		return nil, err
	}
	touch := hold.Field
	err := config.Apply(append(config.Scope(o.Scope), config.Path(hold.Field, &touch, ""),
		config.Named("Options.KeyField", &o.KeyField, "_id"),
		config.Name("Options.VersionField", &o.VersionField, "version"),
		refuse("Options.VersionField", o.VersionField == hold.Field, "%q is taken", hold.Field),
		config.Number("Options.Lease", (*int64)(&o.Lease), int64(time.Minute), int64(time.Millisecond), int64(24*time.Hour)),
		refuse("Options.Deferred", o.Deferred && o.Outbox != nil, "not together with Options.Outbox"),
		refuse("targets", len(targets) == 0, "none"))...)
	if err != nil {
		return nil, err
	}
	c.codec = codec.New(source, o.Registry, o.BSON)
	of, err := scope.New(c.codec, o.Scope)
	if err != nil {
		return nil, err
	}
	c.source, c.outbox = scoped.On(source).In(of), scoped.On(o.Outbox).In(of)
	for i, t := range targets {
		if err := c.add(&target{Target: t, option: fmt.Sprintf("targets[%d]", i), coll: scoped.On(t.Collection).In(of)}, known); err != nil {
			return nil, err
		}
	}
	c.primary = cursor.Primary(c.source)
	c.derive()
	return c, nil
}

// refuse is a setting that refuses an option if it is bad.
func refuse(option string, bad bool, why string, args ...any) config.Setting {
	return config.Check(option, func() error {
		if bad {
			return fmt.Errorf(why, args...)
		}
		return nil
	})
}

// add checks and completes a target. It refuses a copy whose paths overlap with another target's,
// or with those that the document needs as a source.
func (c *core) add(t *target, known []any) error {
	own := t.coll != nil && same(c.source, t.coll)
	if !own {
		known = slices.Concat(known, []any{t.option + ".Collection", t.Collection})
		if err := config.Collections(known...); err != nil {
			return err
		}
	}
	t.primary = cursor.Primary(t.coll)
	t.Name = cmp.Or(t.Name, strings.TrimSuffix(t.coll.Name()+"."+t.Path, "."))
	err := config.Apply(
		refuse(t.option+".Path", t.Path == "" && t.Array, "it is empty, and an array needs it"),
		refuse(t.option+".Path", t.Path == "_id" || strings.HasPrefix(t.Path, "_id."), "_id cannot change"),
		config.Named(t.option+".Path", &t.Path, ""),
		refuse(t.option+".IDField", t.Path == "" && t.IDField == "", "it must be set if Path is empty"),
		refuse(t.option+".VersionField", t.Unversioned && t.VersionField != "", "it must be empty if Unversioned is set"),
		refuse(t.option+".OnDelete", t.OnDelete < mongopatterns.Restrict || t.OnDelete > mongopatterns.Keep || t.OnDelete == mongopatterns.Promote, "%s cannot be used here: use Restrict, Keep, Unlink or Cascade", t.OnDelete),
		refuse(t.option+".OnDelete", t.OnDelete == mongopatterns.Cascade && t.Array, "Cascade cannot be used for an array: use Unlink"),
		refuse(t.option+".Fields", len(t.Fields) == 0, "the list is empty"),
		refuse(t.option+".Name", slices.ContainsFunc(c.targets, func(o *target) bool { return o.Name == t.Name }),
			"%q is given twice", t.Name))
	if err != nil {
		return err
	}
	if err = config.Apply(c.copied(t)...); err != nil {
		return err
	}
	var apart [][]string // options and paths, which must not overlap
	beside := func(others, own []string) { apart = append(apart, slices.Concat(others, own)) }
	for _, e := range c.o.Scope {
		beside([]string{"Options.Scope", e.Key}, t.claims())
	}
	if own {
		beside([]string{"Options.VersionField", c.o.VersionField}, t.claims())
		beside([]string{"Options.KeyField", c.o.KeyField}, t.claims())
		for i, f := range t.Fields {
			beside([]string{fmt.Sprintf("%s.Fields[%d].Path", t.option, i), f.Path}, t.claims())
		}
	}
	for _, other := range c.targets {
		if !same(other.coll, t.coll) {
			continue
		}
		if t.Array && other.Array && t.Path == other.Path { // each element may hold a copy of both
			beside(other.named, t.named)
		} else {
			beside(other.claims(), t.claims())
		}
	}
	for _, paths := range apart {
		if err := fieldpath.CheckDisjoint(paths...); err != nil {
			return fault.Invalid("%w", err)
		}
	}
	c.targets = append(c.targets, t)
	return nil
}

func same(a, b *scoped.Collection) bool {
	return a.Name() == b.Name() && a.Database().Name() == b.Database().Name() && a.Database().Client() == b.Database().Client()
}

// claims is the options and paths that nothing else in a document may use: an array is the target's as a whole.
func (t *target) claims() []string {
	if t.Array {
		return []string{t.option + ".Path", t.Path}
	}
	return t.named
}

// copied is the settings for the parts of a copy. They set the defaults, and copied notes the
// paths in the target.
func (c *core) copied(t *target) []config.Setting {
	var table []config.Setting
	part := func(option string, path *string, otherwise string) {
		*path = cmp.Or(*path, otherwise)
		table = append(table, config.Named(t.option+option, path, ""))
		t.inner = append(t.inner, *path)
		t.named = append(t.named, t.option+option, t.path(*path))
		t.ways = append(t.ways, fieldpath.Above(*path)...)
	}
	part(".IDField", &t.IDField, "_id")
	if !t.Unversioned {
		part(".VersionField", &t.VersionField, c.o.VersionField)
	}
	t.Fields = slices.Clone(t.Fields)
	for i := range t.Fields {
		f, option := &t.Fields[i], fmt.Sprintf(".Fields[%d]", i)
		path := t.option + option + ".Path"
		first, _, _ := strings.Cut(f.Path, ".")
		own := f.Path == c.o.KeyField || slices.Contains([]string{"_id", c.o.VersionField, hold.Field}, first)
		twice := slices.ContainsFunc(t.Fields[:i], func(other Field) bool { return other.Path == f.Path })
		table = append(table,
			config.Check(path, func() error { return fieldpath.CheckNamed("a field of the source", f.Path) }),
			refuse(path, twice, "%q is given twice", f.Path),
			refuse(path, own, "%q cannot be copied", f.Path))
		part(option+".As", &f.As, f.Path[strings.LastIndexByte(f.Path, '.')+1:])
		if !f.Frozen {
			t.follow = append(t.follow, *f)
		}
	}
	if t.Path == "" {
		id := "_id" // of the document
		table = append(table, config.Name("_id", &id, ""))
	}
	slices.Sort(t.ways)
	t.ways = slices.Compact(t.ways)
	t.outer = fieldpath.Steps(t.Path)
	if t.Array || t.Path == "" {
		t.outer = fieldpath.Above(t.Path)
	}
	return table
}
