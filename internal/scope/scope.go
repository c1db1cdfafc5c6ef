// Package scope restricts the commands of a helper to the documents of one tenant. All methods accept a nil Scope,
// which restricts nothing.
package scope

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// A Scope is the fields that all documents of a tenant have, with their values.
type Scope struct {
	fields []value.Element
	equal  bson.D // the filter that a document is of the tenant, to compare with: Match makes a new one
	set    bson.D // the stage that sets the fields, but for values that Match finds: 7.0 for 7, or an array of several tenants
	codec  Codec
}

// A Codec encodes what commands hold, as package codec does.
type Codec interface {
	Value(v any) (bson.RawValue, error)
	Compared(v any) (bson.RawValue, error)
	Document(document any) (bson.Raw, error)
}

// New returns the Scope of the option Scope, nil without fields. Null, an array or a regular expression is ErrInvalid.
func New(c Codec, option bson.D) (*Scope, error) {
	if len(option) == 0 {
		return nil, nil
	}
	s := &Scope{codec: c}
	set := bson.D{}
	for _, e := range option {
		v, err := c.Compared(e.Value)
		if err == nil {
			err = value.CheckID(v)
		}
		if err != nil {
			return nil, fault.Invalid("Options.Scope: %s: %w", e.Key, err)
		}
		s.fields = append(s.fields, value.Element{Name: e.Key, Value: v})
		s.equal = append(s.equal, expr.Element(e.Key, value.Equal(v)))
		have, want := expr.Field(e.Key), expr.Literal(v)
		all := expr.Op("$cond", bson.A{expr.Op("$isArray", bson.A{have}), have, bson.A{have}})
		set = append(set, expr.Element(e.Key, expr.Op("$cond", bson.A{expr.Op("$in", bson.A{want, all}), have, want})))
	}
	s.set = expr.Op("$set", expr.Raw(set))
	return s, nil
}

// Has reports whether a field is one of the scope.
func (s *Scope) Has(field string) bool {
	return s != nil && slices.ContainsFunc(s.fields, func(f value.Element) bool { return f.Name == field })
}

// Fields returns the fields.
func (s *Scope) Fields() []value.Element {
	if s == nil {
		return nil
	}
	return s.fields
}

// Keys puts the fields before the keys of an index, or of a shard key.
func (s *Scope) Keys(keys bson.D) bson.D {
	out := make(bson.D, 0, len(s.Fields())+len(keys))
	for _, f := range s.Fields() {
		out = append(out, expr.Element(f.Name, 1))
	}
	return append(out, keys...)
}

// Label returns name for a document that there is once for each scope. Scopes that the server holds equal have one
// label, whatever the types of their numbers and the order of their fields.
func (s *Scope) Label(name string) string {
	parts := []string{}
	for _, f := range s.Fields() {
		parts = append(parts, f.Name+"="+strconv.QuoteToASCII(value.Key(f.Value)))
	}
	slices.Sort(parts)
	return strings.Join(append([]string{name}, parts...), " ")
}

// SetStages returns the stages that give documents the fields.
func (s *Scope) SetStages() mongo.Pipeline {
	if s == nil {
		return nil
	}
	return mongo.Pipeline{s.set}
}

// CheckCollation refuses a scope with a value that a collation may hold equal to that of another tenant, such as text.
func (s *Scope) CheckCollation() error {
	for _, f := range s.Fields() {
		switch f.Value.Type {
		case bson.TypeInt32, bson.TypeInt64, bson.TypeDouble, bson.TypeDecimal128, bson.TypeObjectID, bson.TypeBoolean, bson.TypeDateTime, bson.TypeBinary:
		default:
			return fault.Invalid("under a collation %s in %q, a field of Options.Scope, may be equal to that of another tenant", value.Text(f.Value), f.Name)
		}
	}
	return nil
}

// Match returns a filter for those of the documents that are of the tenant, which may be changed. The filter must not have
// the fields of the scope.
func (s *Scope) Match(filter bson.D) bson.D {
	if s == nil {
		return filter
	}
	match := make(bson.D, 0, len(s.fields)+len(filter))
	for _, f := range s.fields {
		match = append(match, expr.Element(f.Name, value.Equal(f.Value)))
	}
	return append(match, filter...)
}

// Filter is Match for any filter that the driver takes, also for one that Match returned.
func (s *Scope) Filter(filter any) any {
	if s == nil {
		return filter
	}
	d, ok := filter.(bson.D)
	if len(d) >= len(s.equal) && reflect.DeepEqual(d[:len(s.equal)], s.equal) {
		return d
	}
	if ok && !slices.ContainsFunc(d, func(e bson.E) bool { return s.Has(e.Key) }) {
		return s.Match(d)
	}
	return expr.And(s.Match(nil), filter)
}

// Stages begins a pipeline with the scope. If the first stage is a $match, it becomes a part of that, because some filters
// may only be in the first stage.
func (s *Scope) Stages(stages mongo.Pipeline) mongo.Pipeline {
	if s == nil {
		return stages
	}
	if len(stages) > 0 && len(stages[0]) == 1 && stages[0][0].Key == "$match" {
		first := expr.Op("$match", s.Filter(stages[0][0].Value))
		return append(mongo.Pipeline{first}, stages[1:]...)
	}
	return append(mongo.Pipeline{expr.Op("$match", s.Match(nil))}, stages...)
}

// Pipeline is Stages for the forms of pipelines that the packages send.
func (s *Scope) Pipeline(pipeline any) (any, error) {
	if s == nil {
		return pipeline, nil
	}
	var stages mongo.Pipeline
	switch p := pipeline.(type) {
	case mongo.Pipeline:
		stages = p
	case bson.A:
		stages = make(mongo.Pipeline, len(p))
		for i, stage := range p {
			switch stage := stage.(type) {
			case bson.D:
				stages[i] = stage
			case bson.Raw:
				stages[i] = opened(stage)
			default:
				return nil, fault.Invalid("a stage of type %T", stage)
			}
		}
	case expr.Stages:
		values, _ := bson.RawArray(p).Values()
		stages = make(mongo.Pipeline, len(values))
		for i, v := range values {
			stages[i] = opened(v.Document())
		}
	default:
		return nil, fault.Invalid("a pipeline of type %T", pipeline)
	}
	return s.Stages(stages), nil
}

// opened is a document with its values encoded.
func opened(doc bson.Raw) (out bson.D) {
	elements, _ := doc.Elements()
	for _, e := range elements {
		out = append(out, expr.Element(e.Key(), e.Value()))
	}
	return out
}

// Document adds the fields to a document that is about to be stored. Another value there is ErrInvalid.
func (s *Scope) Document(document any) (any, error) {
	if s == nil {
		return document, nil
	}
	raw, err := s.codec.Document(document)
	if err == nil {
		raw, err = s.Set(raw)
	}
	return raw, fault.Withheld(err)
}

// Set is Document for a valid document.
func (s *Scope) Set(raw bson.Raw) (bson.Raw, error) {
	for _, f := range s.Fields() {
		if raw.Lookup(f.Name).Type == 0 {
			raw = value.Append(raw, f)
		}
	}
	return raw, s.Check(raw)
}

// Check returns ErrInvalid for a document of another scope.
func (s *Scope) Check(doc bson.Raw) error {
	for _, f := range s.Fields() {
		if doc.Lookup(f.Name).Type == 0 {
			return fault.Invalid("the document has no %q, which Options.Scope sets to %s", f.Name, value.Text(f.Value))
		}
	}
	if s == nil {
		return nil
	}
	elements, err := doc.Elements()
	if err != nil {
		return fault.Invalid("the document is not valid BSON: %w", err)
	}
	for _, e := range elements { // a name can be there twice
		for _, f := range s.fields {
			if have := e.Value(); e.Key() == f.Name && !value.Same(have, f.Value) {
				return fault.Invalid("the document has %s in %q, which Options.Scope sets to %s", value.Text(have), f.Name, value.Text(f.Value))
			}
		}
	}
	return nil
}

// Documents is Document for each of a slice.
func (s *Scope) Documents(documents any) (any, error) {
	list := reflect.ValueOf(documents)
	if s == nil || list.Kind() != reflect.Slice {
		return documents, nil
	}
	out := make([]any, list.Len())
	for i := range out {
		var err error
		if out[i], err = s.Document(list.Index(i).Interface()); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Update refuses an update with operators that changes the fields, with ErrInvalid. A pipeline gets a last stage that sets
// them.
func (s *Scope) Update(update any) (any, error) {
	if s == nil {
		return update, nil
	}
	if stages, ok := update.(mongo.Pipeline); ok { // left to the driver, whose registry may be another
		return append(slices.Clip(stages), s.set), nil
	}
	v, err := s.codec.Value(update)
	if err != nil {
		return nil, fault.Withheld(err)
	}
	if stages, ok := v.ArrayOK(); ok {
		all, err := stages.Values()
		if err != nil {
			return nil, fault.Withheld(fault.Invalid("the update is not valid BSON: %w", err))
		}
		return expr.Stages(value.Array(append(all, value.Embedded(expr.Raw(s.set)))).Value), nil
	}
	operators, ok := v.DocumentOK()
	if !ok {
		return update, nil // which the driver refuses
	}
	for _, operator := range opened(operators) {
		fields, _ := operator.Value.(bson.RawValue).DocumentOK()
		for _, field := range opened(fields) {
			if err := s.checkOperator(operator.Key, field.Key, field.Value.(bson.RawValue)); err != nil {
				return nil, fault.Withheld(err)
			}
		}
	}
	return operators, nil
}

// checkOperator returns ErrInvalid if an operator changes a field of the scope.
func (s *Scope) checkOperator(operator, path string, v bson.RawValue) error {
	if to, ok := v.StringValueOK(); ok && operator == "$rename" {
		if err := s.checkOperator("", to, v); err != nil {
			return err
		}
	}
	name, _, _ := strings.Cut(path, ".")
	if !s.Has(name) {
		return nil
	}
	same := func(f value.Element) bool { return f.Name == path && value.Same(f.Value, v) }
	if (operator == "$set" || operator == "$setOnInsert") && slices.ContainsFunc(s.fields, same) {
		return nil
	}
	return fault.Invalid("the update changes %q, a field of Options.Scope", name)
}

// Models scopes the parts of a bulk write.
func (s *Scope) Models(models []mongo.WriteModel) ([]mongo.WriteModel, error) {
	if s == nil {
		return models, nil
	}
	out := make([]mongo.WriteModel, len(models))
	for i, m := range models {
		var err error
		if out[i], err = s.model(m); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// model scopes a copy, because a transaction may send the model again.
func (s *Scope) model(m mongo.WriteModel) (_ mongo.WriteModel, err error) {
	switch m := m.(type) {
	case *mongo.InsertOneModel:
		own := *m
		own.Document, err = s.Document(m.Document)
		return &own, err
	case *mongo.ReplaceOneModel:
		own := *m
		own.Filter = s.Filter(m.Filter)
		own.Replacement, err = s.Document(m.Replacement)
		return &own, err
	case *mongo.UpdateOneModel:
		own := *m
		own.Filter = s.Filter(m.Filter)
		own.Update, err = s.Update(m.Update)
		return &own, err
	case *mongo.UpdateManyModel:
		own := *m
		own.Filter = s.Filter(m.Filter)
		own.Update, err = s.Update(m.Update)
		return &own, err
	case *mongo.DeleteOneModel:
		own := *m
		own.Filter = s.Filter(m.Filter)
		return &own, nil
	case *mongo.DeleteManyModel:
		own := *m
		own.Filter = s.Filter(m.Filter)
		return &own, nil
	}
	return nil, fault.Withheld(fault.Invalid("a write of type %T", m))
}
