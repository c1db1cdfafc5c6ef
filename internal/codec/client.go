package codec

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// New returns the Codec of a helper: of its own registry and BSON options, or, if it has no BSON options, of those with
// which the client of its collection encodes and decodes. It sends nothing.
func New(coll *mongo.Collection, registry *bson.Registry, own *options.BSONOptions) Codec {
	if own == nil && coll != nil {
		own = client(coll)
	}
	return Codec{Registry: registry, BSON: own}
}

// client returns the BSON options of the client, nil if it has none. The driver does not tell them, but it encodes and
// decodes with them before it sends. So two documents are inserted with a registry of ours, which returns an error once it
// has seen the options. The context is over from the start, so nothing is ever sent, whatever the driver does first.
func client(coll *mongo.Collection) *options.BSONOptions {
	asked := coll.Clone(options.Collection().SetRegistry(asking))
	over, cancel := context.WithCancel(context.Background())
	cancel()
	var found options.BSONOptions
	for _, document := range []any{question{}, bson.D{{Key: "_id", Value: 1}}} { // of the second the driver decodes the _id
		_, err := fault.One(asked.InsertOne(over, document))
		if a := (answer)(nil); errors.As(err, &a) {
			a(&found)
		}
	}
	if found == (options.BSONOptions{}) {
		return nil
	}
	return &found
}

type question struct{}

// An answer is the error of a registry that was asked. It notes what was found.
type answer func(o *options.BSONOptions)

func (answer) Error() string { return "nothing is to be sent" }

var asking = func() *bson.Registry {
	r := bson.NewRegistry()
	r.RegisterTypeEncoder(reflect.TypeFor[question](), bson.ValueEncoderFunc(func(ec bson.EncodeContext, _ bson.ValueWriter, _ reflect.Value) error {
		return answer(func(o *options.BSONOptions) { encoding(ec, o) })
	}))
	r.RegisterTypeDecoder(reflect.TypeFor[any](), bson.ValueDecoderFunc(func(dc bson.DecodeContext, _ bson.ValueReader, _ reflect.Value) error {
		return answer(func(o *options.BSONOptions) { decoding(dc, o) })
	}))
	return r
}()

// A key of a map that is text by fmt, or by its method.
type key struct{}

func (key) String() string               { return "fmt" }
func (key) MarshalText() ([]byte, error) { return []byte("text"), nil }

// encoding notes the options that the driver encodes with.
func encoding(ec bson.EncodeContext, o *options.BSONOptions) {
	ec.Registry = bson.NewRegistry() // neither byBSON nor byJSON, because the options say by which tags it reads
	encode := func(v any) (bson.Raw, error) {
		encoder, err := ec.LookupEncoder(reflect.TypeOf(v))
		if err != nil {
			return nil, err
		}
		var out bytes.Buffer
		err = encoder.EncodeValue(ec, bson.NewDocumentWriter(&out), reflect.ValueOf(v))
		return out.Bytes(), err
	}
	type inner struct{ A int }
	type twice struct {
		A     int
		Inner inner `bson:",inline"`
	}
	type fields struct {
		Named int `json:"json"`
		Zero  int
		Empty inner `bson:"empty,omitempty"`
	}
	doc, _ := encode(bson.D{
		{Key: "int", Value: int64(1)}, {Key: "map", Value: map[string]int(nil)}, {Key: "slice", Value: []int(nil)},
		{Key: "bytes", Value: []byte(nil)}, {Key: "keys", Value: map[key]int{{}: 1}}, {Key: "fields", Value: fields{Named: 1}},
	})
	has := func(path ...string) bool { return doc.Lookup(path...).Type != 0 }
	_, err := encode(twice{})
	o.ErrorOnInlineDuplicates = err != nil
	o.IntMinSize = doc.Lookup("int").Type == bson.TypeInt32
	o.NilMapAsEmpty = doc.Lookup("map").Type == bson.TypeEmbeddedDocument
	o.NilSliceAsEmpty = doc.Lookup("slice").Type == bson.TypeArray
	o.NilByteSliceAsEmpty = doc.Lookup("bytes").Type == bson.TypeBinary
	o.StringifyMapKeysWithFmt = has("keys", "fmt")
	o.UseJSONStructTags = has("fields", "json")
	o.OmitEmpty = !has("fields", "zero")
	o.OmitZeroStruct = !has("fields", "empty")
}

// decoding notes the options that the driver decodes with.
func decoding(dc bson.DecodeContext, o *options.BSONOptions) {
	dc.Registry = byBSON // these types have no tags
	decode := func(v, into any) error {
		doc, err := bson.Marshal(bson.D{{Key: "v", Value: v}})
		if err != nil {
			return err
		}
		target := reflect.ValueOf(into).Elem()
		decoder, err := dc.LookupDecoder(target.Type())
		if err != nil {
			return err
		}
		return decoder.DecodeValue(dc, bson.NewDocumentReader(bytes.NewReader(doc)), target)
	}
	var number struct{ V int }
	var text struct{ V string }
	var binary, document struct{ V any }
	var at struct{ V time.Time }
	values, fields := map[string]int{"old": 1}, struct{ V, Old int }{Old: 1}
	o.AllowTruncatingDoubles = decode(1.5, &number) == nil
	o.ObjectIDAsHexString = decode(bson.NewObjectID(), &text) == nil
	if decode([]byte{1}, &binary) == nil {
		_, o.BinaryAsSlice = binary.V.([]byte)
	}
	if decode(bson.D{}, &document) == nil {
		_, o.DefaultDocumentM = document.V.(bson.M)
		_, o.DefaultDocumentMap = document.V.(map[string]any)
	}
	o.UseLocalTimeZone = decode(time.UnixMilli(0), &at) == nil && at.V.Location() != time.UTC
	o.ZeroMaps = decode(1, &values) == nil && len(values) == 1
	o.ZeroStructs = decode(1, &fields) == nil && fields.Old == 0
}
