// Package polymorphic keeps values of several Go types in one collection, or in one field. Each
// document holds the name of its type, which is called its kind.
//
// # When to use it, and when not
//
// Use it where documents of different shape are searched and listed together, with one query, one
// index and one page. If they never are, use a collection for each type. If the types differ only
// in a field or two, use one type with pointers. For many similar fields, use package attribute.
//
// # Documents
//
// A document has the fields of its type, and one that names the kind. The type must not have that field
// itself, in BSON or JSON, or Encode returns ErrInvalid. You choose the names of the kinds, so that renaming
// a Go type changes no document:
//
//	{_id: 1, sport: "bowling", name: "Earl Anthony", average: 219}
//	{_id: 2, sport: "tennis", name: "Martina Navratilova", singles: {titles: 167}, doubles: {titles: 177}}
//
// # The five calls
//
//	type Athlete interface{ FullName() string }
//
//	kinds, err := polymorphic.New([]polymorphic.Kind{
//		polymorphic.Of[Bowler]("bowling", "ten-pin"), // "ten-pin" is an older name
//		polymorphic.Of[*TennisPlayer]("tennis"),      // comes back as a pointer
//	}, &polymorphic.Options[Athlete]{KindField: "sport"})
//
//	raw, err := kinds.Encode(Bowler{…})               // to insert: {sport: "bowling", …}
//	athlete, err := kinds.Decode(raw)                 // an Athlete
//	for athlete, err := range kinds.Find(ctx, coll, bson.M{"name": "…"}) { … }
//	filter := polymorphic.FilterOf[Bowler](kinds, nil) // {sport: {$in: ["bowling", "ten-pin"]}}
//	switch a := athlete.(type) { case Bowler: …; case *TennisPlayer: … }
//
// The interface, here Athlete, has what all kinds share. It may be any, if they share nothing.
//
// [Doc] is a value that encodes and decodes itself, in BSON and in JSON. Use it as an element or
// a field of your structs, and as the T of the other packages. The kinds are not registered
// globally, so you pass them with a type of yours:
//
//	type sports struct{}
//	func (sports) Kinds() *polymorphic.Kinds[Athlete] { return kinds }
//	type AthleteDoc = polymorphic.Doc[Athlete, sports]
//
//	pager, err := paging.New[AthleteDoc](coll, bson.D{{Key: "name", Value: 1}}, nil)
//	first := page.Items[0].V                 // an Athlete
//	text, err := json.Marshal(page.Items[0]) // {"sport": "bowling", …}
//
// There are also [Kinds.Validator], which joins a schema of each kind into one for the
// collection, [IndexOf], which makes an index of the documents of one kind, and [Kinds.View], which
// shows several collections as one, each mapped to a common shape.
//
// # Missing and unknown kinds
//
// A document without KindField has the kind [Options].Default, or without Default an unknown kind.
// For an unknown kind, Decode returns an [UnknownError] with its name. In Find it is the error of
// that document, and the loop may go on. With [Options].Unknown such a document is a value of yours
// instead. Embed [Unknown] in it, which keeps the document byte for byte, so that Encode writes it
// back unchanged.
//
// # Concurrency, adoption
//
// Kinds never change and are safe for concurrent use. To adopt a collection without names, make its
// kind the Default, or write the names: updateMany({titles: {$exists: true}}, {$set: {sport:
// "tennis"}}). To rename a kind, keep its old name as an alias until the last document has the new
// one; FilterOf finds both. Views cannot be used in transactions, because the server refuses
// $unionWith there.
//
// # Costs
//
// All calls except Find work in memory only. Encoding adds one field and copies the document once,
// and decoding looks the field up.
//
//	call             round trips
//	Find             1 a batch, index as your filter
//	FilterOf         an equality or $in: put KindField first in a compound index
//
// # Sharding
//
// Sharding makes no difference.
//
// docs/shards.csv lists for each call the shards it asks, and what a transaction refuses.
package polymorphic
