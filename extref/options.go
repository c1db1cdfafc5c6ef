package extref

import (
	"cmp"
	"errors"
	"fmt"
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
	// A natural key, "catalog_number", gets a unique index on the source, and every
	// ID that calls take is one. A source without it has no copies. Default "_id".
	KeyField string
	// VersionField is the source's field for the version, without dots: a whole
	// number from 0 to math.MaxInt64-1 (int32, int64 or double); missing or null
	// counts as 0. Not used if every target is Unversioned. Default "version".
	VersionField string

	// Outbox makes Update and Replace write an entry there instead of
	// propagating; call Drain. It is for this Ref's source only: an entry's _id
	// is the source's key. On a sharded cluster create it beforehand. Default nil.
	Outbox *mongo.Collection
	// Lease is how long an entry that a worker has taken on is left alone by
	// others; longer work is done twice, without harm. Default 1 minute.
	Lease time.Duration
	// Deferred makes Update and Replace change the source only. Watch or
	// Propagate brings the change to the copies. Not with Outbox. Default false.
	Deferred bool
	// Compare has Propagate, Drain and Watch look for copies of the source's
	// version with other values, and raise the version for them: for sources that
	// others change without raising it. It reads all copies of a source. Targets
	// that are Unversioned do not need it. Default false.
	Compare bool

	// Registry encodes IDs, sources and updates. Give the client's own registry if
	// it has one: a collection does not show it. Default nil: the driver's.
	Registry *bson.Registry
	// BSON are the client's BSON options, if it has any. Default nil: none.
	BSON *options.BSONOptions
}

// A Target is a place in the documents of a collection that holds copies.
type Target struct {
	// Collection holds the copies. It may be the source's own. Required.
	Collection *mongo.Collection
	// Path is where a document has its copy, or with Array its array of copies;
	// it may be dotted, but not lead through another array. "" puts the copy among
	// the document's own fields. Default "".
	Path string
	// Array says that Path holds an array of copies. A document may hold several
	// of one source. Default false.
	Array bool

	// IDField is the path, inside the copy, of the source's key; as all paths here
	// it may be dotted, but not lead through an array. Default "_id"; with Path ""
	// it must be given.
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
	// Path is the field in the source; it may be dotted, but not lead through an
	// array: a source that has one there is ErrInvalid. Required.
	Path string
	// As is the path inside the copy. Default: the last segment of Path.
	As string
	// Policy says whether the copy follows changes. Default Follow.
	Policy Policy
}

// A Policy says what becomes of a copied field when the source's changes.
type Policy int

const (
	// Follow copies every change.
	Follow Policy = iota
	// Freeze keeps the value as it was when the reference was made.
	Freeze
)

// A DeletePolicy says what becomes of copies when their source is deleted.
type DeletePolicy int

const (
	// Refuse keeps the source while another document refers to it.
	Refuse DeletePolicy = iota
	// Keep leaves the last copy as it is. If a source with the same key is
	// inserted later its version must go on from there; Repair sees to that.
	Keep
	// Unset removes the copy: the field at Path, or with Path "" the fields that
	// it consists of, or the elements of the array.
	Unset
	// Cascade deletes the documents that hold a copy, and nothing that refers to
	// these. Not with Array. Neither touches what is Malformed.
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
	if err := config.Collections("source", source); err != nil {
		return nil, err
	}
	err := config.Apply(
		config.Named("Options.KeyField", &o.KeyField, "_id"),
		config.Name("Options.VersionField", &o.VersionField, "version"))
	if err != nil {
		return nil, err
	}
	o.Lease = cmp.Or(o.Lease, time.Minute)
	switch {
	case o.VersionField == touchField:
		err = fault.Invalid("Options.VersionField: %q is taken", touchField)
	case o.Lease < 0:
		err = fault.Invalid("Options.Lease: negative")
	case o.Outbox != nil && o.Deferred:
		err = fault.Invalid("Options.Deferred: not together with Options.Outbox")
	case o.Outbox != nil:
		err = config.Collections("source", source, "Options.Outbox", o.Outbox)
	}
	if err == nil && len(targets) == 0 {
		err = fault.Invalid("targets: none")
	}
	if err != nil {
		return nil, err
	}
	c.codec = codec.Codec{Registry: o.Registry, BSON: o.BSON}
	c.primary = cursor.Primary(source)
	for i, t := range targets {
		if err := c.add(fmt.Sprintf("targets[%d]", i), t); err != nil {
			return nil, err
		}
	}
	c.derive()
	return c, nil
}

// add checks and completes a target, and refuses what collides with the source or
// an earlier one.
func (c *core) add(option string, t Target) error {
	out := &target{Target: t, option: option}
	if err := c.beside(option+".Collection", t.Collection); err != nil {
		return err
	}
	if field, err := t.check(); err != nil {
		return fault.Invalid("%s.%s: %w", option, field, err)
	}
	if err := config.Apply(config.Named(option+".Path", &out.Path, "")); err != nil {
		return err
	}
	if out.Name == "" {
		out.Name = strings.TrimSuffix(t.Collection.Name()+"."+t.Path, ".")
	}
	settings := []config.Setting{config.Named(option+".IDField", &out.IDField, "_id")}
	if !t.Unversioned {
		settings = append(settings, config.Named(option+".VersionField", &out.VersionField, c.o.VersionField))
	}
	out.Fields = append([]Field(nil), t.Fields...)
	known := map[string]bool{}
	for i := range out.Fields {
		f, option := &out.Fields[i], fmt.Sprintf("%s.Fields[%d]", option, i)
		if f.As == "" {
			f.As = f.Path[strings.LastIndexByte(f.Path, '.')+1:]
		}
		settings = append(settings,
			config.Check(option+".Path", func() error { return c.copyable(f.Path, known) }),
			config.Named(option+".As", &f.As, ""),
			config.Check(option+".Policy", func() error {
				if f.Policy < Follow || f.Policy > Freeze {
					return fmt.Errorf("unknown policy %d", f.Policy)
				}
				return nil
			}))
	}
	if t.Path == "" {
		id := "_id"
		settings = append(settings, config.Name("_id", &id, ""))
	}
	if err := config.Apply(settings...); err != nil {
		return err
	}
	if err := c.disjoint(out); err != nil {
		return fault.Invalid("%w", err)
	}
	out.derive()
	c.targets = append(c.targets, out)
	return nil
}

// beside refuses a collection of another database, and the outbox.
func (c *core) beside(option string, coll *mongo.Collection) error {
	if err := config.Collections(option, coll); err != nil {
		return err
	}
	if c.o.Outbox != nil {
		if err := config.Collections("Options.Outbox", c.o.Outbox, option, coll); err != nil {
			return err
		}
	}
	if same(c.source, coll) {
		return nil
	}
	return config.Collections("source", c.source, option, coll)
}

func same(a, b *mongo.Collection) bool {
	return a.Name() == b.Name() && a.Database().Name() == b.Database().Name() && a.Database().Client() == b.Database().Client()
}

// check refuses settings of a target that do not go together, and names the field.
func (t Target) check() (field string, err error) {
	switch {
	case t.Path == "" && t.Array:
		return "Path", errors.New("empty: an array needs one")
	case t.Path == "" && t.IDField == "":
		return "IDField", errors.New("must be given with an empty Path")
	case t.Path == "_id" || strings.HasPrefix(t.Path, "_id."):
		return "Path", errors.New("_id cannot change")
	case t.Unversioned && t.VersionField != "":
		return "VersionField", errors.New("not together with Unversioned")
	case t.OnDelete < Refuse || t.OnDelete > Cascade:
		return "OnDelete", fmt.Errorf("unknown policy %d", t.OnDelete)
	case t.OnDelete == Cascade && t.Array:
		//lint:ignore ST1005 Cascade is the name of the policy
		return "OnDelete", errors.New("Cascade is not for an array, use Unset")
	case len(t.Fields) == 0:
		return "Fields", errors.New("none")
	}
	return "", nil
}

// copyable refuses a path of the source that cannot be copied, or is already.
func (c *core) copyable(path string, known map[string]bool) error {
	if err := fieldpath.CheckNamed("a field of the source", path); err != nil {
		return err
	}
	if known[path] {
		return fmt.Errorf("%q stands twice", path)
	}
	known[path] = true
	first, _, _ := strings.Cut(path, ".")
	if first == c.o.VersionField || first == "_id" || first == touchField || path == c.o.KeyField {
		return fmt.Errorf("%q is no field to copy", path)
	}
	return nil
}

// disjoint refuses a copy that would lie upon another target's, or upon what the
// document has as a source.
func (c *core) disjoint(t *target) error {
	mine := t.paths(t.option)
	if same(c.source, t.Collection) {
		own := []string{"Options.VersionField", c.o.VersionField, "Options.KeyField", c.o.KeyField}
		for i, f := range t.Fields {
			own = append(own, fmt.Sprintf("%s.Fields[%d].Path", t.option, i), f.Path)
		}
		for i := 0; i < len(own); i += 2 {
			for j := 0; j < len(mine); j += 2 {
				if err := fieldpath.CheckDisjoint(own[i], own[i+1], mine[j], mine[j+1]); err != nil {
					return err
				}
			}
		}
	}
	for _, other := range c.targets {
		if other.Name == t.Name {
			return fmt.Errorf("%s.Name: %q stands twice", t.option, t.Name)
		}
		if same(other.Collection, t.Collection) {
			if err := fieldpath.CheckDisjoint(append(other.paths(other.option), mine...)...); err != nil {
				return err
			}
		}
	}
	return nil
}
