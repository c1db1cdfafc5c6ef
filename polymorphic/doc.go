// Package polymorphic keeps values of several Go types in one collection, or in one
// field, and tells them apart by a name in each document.
//
// # Documents
//
// The fields of the type, and one that names the kind. The name is yours, so that
// renaming a Go type changes no document:
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
//	}, &polymorphic.Options[Athlete]{Field: "sport"})
//
//	raw, err := kinds.Encode(Bowler{…})               // to insert: {sport: "bowling", …}
//	athlete, err := kinds.Decode(raw)                 // an Athlete
//	for athlete, err := range kinds.Find(ctx, coll, bson.M{"name": "…"}) { … }
//	filter := polymorphic.FilterOf[Bowler](kinds, nil) // {sport: {$in: ["bowling", "ten-pin"]}}
//	switch a := athlete.(type) { case Bowler: …; case *TennisPlayer: … }
//
// [Doc] is a value that encodes and decodes itself, in BSON and in JSON: as an element or
// a field of your structs, and as the T of the other packages. There is no global
// registry, so a type of yours says where the kinds are:
//
//	type sports struct{}
//	func (sports) Kinds() *polymorphic.Kinds[Athlete] { return kinds }
//	type AthleteDoc = polymorphic.Doc[Athlete, sports]
//
//	pager, err := paging.New[AthleteDoc](coll, bson.D{{"name", 1}}, nil)
//	page.Items[0].V              // an Athlete
//	text, err := json.Marshal(page.Items[0]) // {"sport": "bowling", …}
//
// Further: [Kinds.Validator] joins a schema of each kind to one for the collection,
// [IndexOf] makes an index of one kind alone, and [View] one collection out of
// several, each mapped to a common shape.
//
// # Costs
//
// Everything but Find works in memory. Encoding adds one field and copies the
// document once; decoding looks the field up.
//
//	call             round trips
//	Find             1 a batch, index as your filter
//	FilterOf         an equality or $in: put Field first in a compound index
//
// # Missing and unknown kinds
//
// A document without Field is of kind [Options].Default, else it is unknown. An
// unknown kind is an [UnknownError], which names it, or with [Options].Unknown a
// value of yours that keeps the document byte for byte: embed [Unknown] in it, and
// Encode writes what was read.
//
// # When to use it, and when not
//
// Use it where documents of different shape are searched and listed together: one
// query, one index, one page. If they never are, use a collection each. If the types
// differ in a field or two, use one type with pointers. For many similar fields, use
// package attribute.
//
// # Concurrency, adoption, sharding
//
// Kinds never change and are safe for concurrent use. To adopt a collection without
// names, make its kind the Default, or write the names:
// updateMany({titles: {$exists: true}}, {$set: {sport: "tennis"}}). A type that is
// renamed keeps its old name as an alias until the last document has the new one:
// FilterOf finds both. Views are not for transactions: the server refuses $unionWith
// in them. Sharding does not matter here.
package polymorphic
