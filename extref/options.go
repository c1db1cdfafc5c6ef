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

	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/fieldpath"
)

// Options says how the source is kept and who propagates. The zero value keeps a
// version in "version" and propagates in the transaction of the change.
type Options struct {
	// KeyField is the source's field by which copies know it; it may be dotted.
	// A natural key, "catalog_number", gets a unique index, and every ID that calls
	// take is one. A source without it has no copies. Default "_id".
	KeyField string
	// VersionField is the source's field for the version, without dots: a whole
	// number from 0 to math.MaxInt64-1; missing or null counts as 0. Not used if
	// every target is Unversioned. Default "version".
	VersionField string

	// Outbox makes Update write an entry there instead of propagating; call Drain. It
	// serves this Ref's source only: an entry's _id is the source's key. On a sharded
	// cluster create it beforehand. Default nil.
	Outbox *mongo.Collection
	// Lease is how long others leave an entry alone that a worker has taken on;
	// longer work is done twice, without harm. Default 1 minute.
	Lease time.Duration
	// Deferred makes Update change the source only; Watch or Propagate does the rest.
	// Not with Outbox. Default false.
	Deferred bool

	// Registry and BSON encode IDs, sources and updates. Give the client's own: a
	// collection does not show them. Default nil: the driver's.
	Registry *bson.Registry
	BSON     *options.BSONOptions
}

// A Target is a place in the documents of a collection that holds copies. All
// paths may be dotted, but not lead through an array.
type Target struct {
	// Collection holds the copies. It may be the source's own. Required.
	Collection *mongo.Collection
	// Path is where a document has its copy, or with Array its array of copies.
	// Default "": the copy lies among the document's own fields.
	Path string
	// Array says that Path holds an array of copies, maybe several of one source.
	Array bool

	// IDField is the path, inside the copy, of the source's key. Default "_id";
	// required with Path "".
	IDField string
	// VersionField is the path, inside the copy, of the version. Default: the
	// name in Options.VersionField.
	VersionField string
	// Unversioned leaves the version out of the copies; the package documentation
	// says what that costs. Default false.
	Unversioned bool

	// Fields are the fields that are copied. Required.
	Fields []Field
	// OnDelete is what Delete does with copies of the source. Default Refuse.
	OnDelete DeletePolicy
	// Name is how calls name the target. Default: the collection's name, a dot and
	// Path ("orders.customer"); with Path "" only the collection's name.
	Name string
}

// A Field is a field of the source that is copied.
type Field struct {
	// Path is the field in the source. A source with an array on the way to it is
	// ErrInvalid. Required.
	Path string
	// As is the path inside the copy. Default: the last segment of Path.
	As string
	// Policy says whether the copy follows changes. Default Follow.
	Policy Policy
}

// A Policy says what becomes of a copied field when the source's changes.
type Policy int

const (
	Follow Policy = iota // copies every change
	Freeze               // keeps the value as it was when the reference was made
)

// A DeletePolicy says what becomes of copies when their source is deleted. What is
// Malformed makes Refuse refuse; the others leave it alone.
type DeletePolicy int

const (
	// Refuse keeps the source while another document refers to it.
	Refuse DeletePolicy = iota
	// Keep leaves the last copy as it is. A source inserted later with the same key
	// must go on from its version; Repair sees to that.
	Keep
	// Unset removes the copy: the field at Path, or with Path "" the fields of the
	// copy, or the elements of the array.
	Unset
	// Cascade deletes the documents that hold a copy, and nothing that refers to
	// these. Not with Array.
	Cascade
)

// touchField is set and unset in the source within a transaction.
const touchField = "__touch"

// configure checks options and targets, completes them, and makes the core.
func configure(source *mongo.Collection, targets []Target, opts *Options) (*core, error) {
	c := &core{source: source}
	o := &c.o
	if opts != nil {
		*o = *opts
	}
	o.Lease = cmp.Or(o.Lease, time.Minute)
	known := []any{"source", source}
	if o.Outbox != nil {
		known = append(known, "Options.Outbox", o.Outbox)
	}
	if err := config.Collections(known...); err != nil {
		return nil, err
	}
	err := config.Apply(
		config.Named("Options.KeyField", &o.KeyField, "_id"),
		config.Name("Options.VersionField", &o.VersionField, "version"),
		refuse("Options.VersionField", o.VersionField == touchField, "%q is taken", touchField),
		refuse("Options.Lease", o.Lease < 0, "negative"),
		refuse("Options.Deferred", o.Deferred && o.Outbox != nil, "not together with Options.Outbox"),
		refuse("targets", len(targets) == 0, "none"))
	if err != nil {
		return nil, err
	}
	for i, t := range targets {
		if err := c.add(&target{Target: t, option: fmt.Sprintf("targets[%d]", i)}, known); err != nil {
			return nil, err
		}
	}
	c.codec = codec.Codec{Registry: o.Registry, BSON: o.BSON}
	c.primary = cursor.Primary(source)
	c.derive()
	return c, nil
}

// refuse is the line of a table that refuses an option if it is bad.
func refuse(option string, bad bool, why string, args ...any) config.Setting {
	return config.Check(option, func() error {
		if bad {
			return fmt.Errorf(why, args...)
		}
		return nil
	})
}

// add checks and completes a target, and refuses a copy that would lie upon another
// target's, or upon what the document has as a source.
func (c *core) add(t *target, known []any) error {
	own := t.Collection != nil && same(c.source, t.Collection)
	if !own {
		known = slices.Concat(known, []any{t.option + ".Collection", t.Collection})
		if err := config.Collections(known...); err != nil {
			return err
		}
	}
	t.primary = cursor.Primary(t.Collection)
	t.Name = cmp.Or(t.Name, strings.TrimSuffix(t.Collection.Name()+"."+t.Path, "."))
	err := config.Apply(
		refuse(t.option+".Path", t.Path == "" && t.Array, "empty: an array needs one"),
		refuse(t.option+".Path", t.Path == "_id" || strings.HasPrefix(t.Path, "_id."), "_id cannot change"),
		config.Named(t.option+".Path", &t.Path, ""),
		refuse(t.option+".IDField", t.Path == "" && t.IDField == "", "must be given with an empty Path"),
		refuse(t.option+".VersionField", t.Unversioned && t.VersionField != "", "not together with Unversioned"),
		refuse(t.option+".OnDelete", t.OnDelete < Refuse || t.OnDelete > Cascade, "unknown policy %d", t.OnDelete),
		refuse(t.option+".OnDelete", t.OnDelete == Cascade && t.Array, "Cascade is not for an array, use Unset"),
		refuse(t.option+".Fields", len(t.Fields) == 0, "none"),
		refuse(t.option+".Name", slices.ContainsFunc(c.targets, func(o *target) bool { return o.Name == t.Name }),
			"%q stands twice", t.Name))
	if err == nil {
		err = config.Apply(c.copied(t)...)
	}
	if err != nil {
		return err
	}
	var beside [][]string // options and paths
	if own {
		beside = [][]string{{"Options.VersionField", c.o.VersionField}, {"Options.KeyField", c.o.KeyField}}
		for i, f := range t.Fields {
			beside = append(beside, []string{fmt.Sprintf("%s.Fields[%d].Path", t.option, i), f.Path})
		}
	}
	for _, other := range c.targets {
		if same(other.Collection, t.Collection) {
			beside = append(beside, other.named)
		}
	}
	for _, named := range beside {
		if err := fieldpath.CheckDisjoint(slices.Concat(named, t.named)...); err != nil {
			return fault.Invalid("%w", err)
		}
	}
	c.targets = append(c.targets, t)
	return nil
}

func same(a, b *mongo.Collection) bool {
	return a.Name() == b.Name() && a.Database().Name() == b.Database().Name() && a.Database().Client() == b.Database().Client()
}

// copied is the table of what a copy consists of. It sets the defaults and notes the
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
		own := f.Path == c.o.KeyField || slices.Contains([]string{"_id", c.o.VersionField, touchField}, first)
		twice := slices.ContainsFunc(t.Fields[:i], func(other Field) bool { return other.Path == f.Path })
		table = append(table,
			config.Check(path, func() error { return fieldpath.CheckNamed("a field of the source", f.Path) }),
			refuse(path, twice, "%q stands twice", f.Path),
			refuse(path, own, "%q is no field to copy", f.Path),
			refuse(t.option+option+".Policy", f.Policy < Follow || f.Policy > Freeze, "unknown policy %d", f.Policy))
		part(option+".As", &f.As, f.Path[strings.LastIndexByte(f.Path, '.')+1:])
		if f.Policy == Follow {
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
