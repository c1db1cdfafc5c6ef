package labels_test

import "go.mongodb.org/mongo-driver/v2/bson"

// A few fields of another document: extref.
func fifthJoinCases() []labelled {
	return []labelled{
		{
			name: "citas", service: "dentist", pays: "extref", fine: "relation",
			why: "each day's plan joins name and room of the dentist to the appointments, and these hardly ever change",
			colls: []coll{
				{name: "citas", n: 2400, indexes: []string{"día"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(40, i), "día", i%80, "hora", g.text(5), "doctor", int32(g.IntN(60)), "motivo", g.text(15))
				}},
				{name: "doctores", n: 60, doc: func(g gen, i int) bson.D {
					return d("_id", int32(i), "nombre", g.name(), "sala", g.text(4), "teléfono", g.text(9), "título", g.text(20),
						"horario", list(5, func(int) any { return g.text(11) }), "biografía", g.text(150))
				}},
			},
			traffic: []requests{
				{150, func(s *session, _ int) {
					s.aggregate("citas", match("día", s.IntN(80)), join("doctores", "doctor", "_id", "doc"), d("$unwind", "$doc"),
						d("$sort", d("hora", 1)), project("hora", 1, "motivo", 1, "doc.nombre", 1, "doc.sala", 1))
				}},
				{2, func(s *session, _ int) {
					s.update("doctores", d("_id", int32(s.IntN(60))), d("$set", d("sala", s.text(4))))
				}},
			},
		},
		{
			name: "udlejninger", service: "bikeshare", pays: "extref", fine: "relation",
			why: "each list of a customer's hires loads street and town of their stations by a second query of a batching resolver",
			colls: []coll{
				{name: "udlejninger", n: 2400, indexes: []string{"kunde"}, doc: func(g gen, i int) bson.D {
					return d("_id", uuid(40, i), "kunde", i%200, "station", snow(9, g.IntN(150)), "kr", g.between(5, 90), "slut", minute(i))
				}},
				{name: "steder", n: 150, doc: func(g gen, i int) bson.D {
					return d("_id", snow(9, i), "vej", g.text(14), "by", g.city(), "pladser", g.between(8, 40), "tag", i%2 == 0,
						"note", g.text(90), "åbnet", at(i*100))
				}},
			},
			traffic: []requests{
				{160, func(s *session, _ int) {
					s.populate("steder", s.find("udlejninger", d("kunde", s.IntN(200)), by{sort: d("slut", -1)}), "station",
						keep("vej", "by"))
				}},
			},
		},
		{
			name: "colli", service: "customs", pays: "extref", fine: "relation",
			why: "the shed list joins the sender by its number, a unique key that is not its _id, and shows its name and country",
			colls: []coll{
				{name: "colli", n: 2000, indexes: []string{"loods"}, doc: func(g gen, i int) bson.D {
					return d("_id", numbered("C", i), "loods", i%50, "afzender_nr", 10_000+g.IntN(300), "kg", g.between(1, 400))
				}},
				{name: "afzenders", n: 300, indexes: []string{"nr"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(41, i), "nr", 10_000+i, "naam", g.name(), "land", g.of("CN", "US", "TR"), "adres", g.text(50),
						"contact", g.text(16), "sinds", at(i))
				}},
			},
			traffic: []requests{
				{150, func(s *session, _ int) {
					s.aggregate("colli", match("loods", s.IntN(50)), join("afzenders", "afzender_nr", "nr", "afzender"),
						d("$unwind", "$afzender"), project("kg", 1, "afzender.naam", 1, "afzender.land", 1))
				}},
				{2, func(s *session, _ int) {
					s.update("afzenders", d("nr", 10_000+s.IntN(300)), d("$set", d("naam", s.name())))
				}},
			},
		},
		{
			name: "koncerti", service: "choir", pays: "extref", fine: "relation",
			why: "each programme joins title and composer of the works in its array, which extref keeps in the elements",
			colls: []coll{
				{name: "koncerti", n: 900, doc: func(g gen, i int) bson.D {
					return d("_id", ulid("K", i), "vieta", g.city(), "programma", list(g.between(3, 9), func(int) any {
						return d("darbs", key("w", g.IntN(250)), "min", g.between(2, 20))
					}))
				}},
				{name: "darbi", n: 250, doc: func(g gen, i int) bson.D {
					return d("_id", key("w", i), "nosaukums", g.text(18), "autors", g.name(), "izdevējs", g.text(14), "gads",
						g.between(1500, 2020), "balsis", g.of("SATB", "SSA"), "apraksts", g.text(150))
				}},
			},
			traffic: []requests{
				{150, func(s *session, _ int) {
					s.aggregate("koncerti", match("_id", ulid("K", s.IntN(900))), d("$unwind", "$programma"),
						join("darbi", "programma.darbs", "_id", "w"), d("$unwind", "$w"),
						project("programma.min", 1, "w.nosaukums", 1, "w.autors", 1))
				}},
			},
		},
		{
			name: "queue_items", service: "podcast", pays: "extref|relation",
			why: "for each entry of a playlist the player loads title and image of the feed by a findOne of its own",
			colls: []coll{
				{name: "queue_items", n: 2000, indexes: []string{"playlist,pos"}, doc: func(g gen, i int) bson.D {
					return d("_id", uuid(42, i), "playlist", i/10, "pos", i%10, "feed", oid(42, g.IntN(300)), "addedAt", minute(i))
				}},
				{name: "feeds", n: 300, doc: func(g gen, i int) bson.D {
					return d("_id", oid(42, i), "title", g.text(20), "image", g.text(30), "author", g.name(), "about", g.text(200),
						"lang", g.of("en", "de"), "explicit", i%9 == 0)
				}},
			},
			traffic: []requests{
				{50, func(s *session, _ int) {
					items := s.find("queue_items", d("playlist", s.IntN(200)), by{sort: d("pos", 1)})
					s.dereference("feeds", items, "feed", keep("title", "image"))
				}},
			},
		},
		{
			name: "spectra", service: "observatory", pays: "extref", fine: "relation",
			why: "each list of spectra joins name and resolution of the instrument that a nested field names, and instruments stay",
			colls: []coll{
				{name: "spectra", n: 2200, indexes: []string{"object"}, doc: func(g gen, i int) bson.D {
					return d("_id", snow(6, i), "object", i%110, "setup", d("instrument", key("ins", g.IntN(40)), "slit", g.Float64()),
						"snr", g.IntN(300))
				}},
				{name: "instruments", n: 40, doc: func(g gen, i int) bson.D {
					return d("_id", key("ins", i), "name", g.text(12), "resolution", g.between(500, 90_000), "telescope", g.text(10),
						"pi", g.name(), "manual", g.text(200), "range", a{300, 1000})
				}},
			},
			traffic: []requests{
				{150, func(s *session, _ int) {
					only := a{project("name", 1, "resolution", 1)}
					s.aggregate("spectra", match("object", s.IntN(110)), d("$lookup", d("from", "instruments", "localField",
						"setup.instrument", "foreignField", "_id", "pipeline", only, "as", "instrument")))
				}},
			},
		},
		{
			name: "mæting", service: "kindergarten", pays: "extref", fine: "relation",
			why: "each sheet of attendance joins the names of the two who opened and closed it, and staff keep their names",
			colls: []coll{
				{name: "mæting", n: 2000, indexes: []string{"deild"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(43, i), "deild", i%40, "dagur", at(i/40*24), "opnaði", oid(44, g.IntN(90)), "lokaði",
						oid(44, g.IntN(90)), "fjöldi", g.between(5, 25))
				}},
				{name: "starfsmenn", n: 90, doc: func(g gen, i int) bson.D {
					return d("_id", oid(44, i), "nafn", g.name(), "sími", g.text(8), "laun", g.between(300, 900)*1000, "heimili",
						g.text(20), "próf", list(3, func(int) any { return g.text(14) }))
				}},
			},
			traffic: []requests{
				{150, func(s *session, _ int) {
					s.aggregate("mæting", match("deild", s.IntN(40)), d("$sort", d("dagur", -1)), d("$limit", 30),
						join("starfsmenn", "opnaði", "_id", "o"), join("starfsmenn", "lokaði", "_id", "l"),
						project("dagur", 1, "fjöldi", 1, "o.nafn", 1, "l.nafn", 1))
				}},
			},
		},
		{
			name: "interviews", service: "jobs", pays: "extref", fine: "relation",
			why: "the calendar joins one field, the candidate's name, by a pipeline with let, for each of its readers",
			colls: []coll{
				{name: "interviews", n: 2000, indexes: []string{"recruiter"}, doc: func(g gen, i int) bson.D {
					return d("_id", uuid(43, i), "recruiter", i%50, "candidate", hex(7, g.IntN(800)), "starts", minute(i*30))
				}},
				{name: "candidates", n: 800, doc: func(g gen, i int) bson.D {
					return d("_id", hex(7, i), "name", g.name(), "mail", g.text(14), "phone", g.text(10), "summary", g.text(150),
						"wants", g.between(30, 120)*1000)
				}},
			},
			traffic: []requests{
				{150, func(s *session, _ int) {
					only := a{match("$expr", d("$eq", a{"$_id", "$$c"})), project("_id", 0, "name", 1)}
					s.aggregate("interviews", match("recruiter", s.IntN(50)),
						d("$lookup", d("from", "candidates", "let", d("c", "$candidate"), "pipeline", only, "as", "who")),
						d("$set", d("who", d("$first", "$who.name"))))
				}},
				{3, func(s *session, _ int) {
					s.update("candidates", d("_id", hex(7, s.IntN(800))), d("$set", d("name", s.name())))
				}},
			},
		},
		{
			name: "ordres", service: "circus", harm: "extref",
			why: "the joined stock of feed changes with each meal and has to be right, so no copy could follow it",
			colls: []coll{
				{name: "ordres", n: 1500, indexes: []string{"équipe"}, doc: func(g gen, i int) bson.D {
					return d("_id", int32(i), "équipe", i%50, "aliment", key("al", g.IntN(60)), "kg", g.between(1, 50))
				}},
				{name: "aliments", n: 60, doc: func(g gen, i int) bson.D {
					return d("_id", key("al", i), "nom", g.text(10), "stock", g.between(100, 9000), "fournisseur", g.name(), "note",
						g.text(60), "rayon", g.IntN(9))
				}},
			},
			traffic: []requests{
				{90, func(s *session, _ int) {
					s.aggregate("ordres", match("équipe", s.IntN(50)), join("aliments", "aliment", "_id", "a"), d("$unwind", "$a"),
						project("kg", 1, "a.stock", 1))
				}},
				{270, func(s *session, _ int) { s.raise("aliments", key("al", s.IntN(60)), "stock", -s.between(1, 9)) }},
			},
		},
		{
			name: "mahojiano", service: "embassy", fine: "relation",
			why: "an interview needs the applicant's form with all its sixteen fields, and extref copies only a few",
			colls: []coll{
				{name: "mahojiano", n: 1200, indexes: []string{"siku"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(45, i), "siku", i%120, "fomu", oid(46, i), "saa", g.between(8, 16))
				}},
				{name: "fomu", n: 1200, doc: func(g gen, i int) bson.D {
					return append(d("_id", oid(46, i)), d(pairs(fifthDental, func(string) any { return g.text(14) })...)...)
				}},
			},
			traffic: []requests{
				{140, func(s *session, _ int) {
					s.aggregate("mahojiano", match("siku", s.IntN(120)), join("fomu", "fomu", "_id", "f"), d("$unwind", "$f"))
				}},
				{60, func(s *session, _ int) {
					s.update("fomu", d("_id", oid(46, s.IntN(1200))), d("$set", d(s.of(fifthDental...), s.text(14))))
				}},
			},
		},
		{
			name: "dobavnice", service: "sawmill",
			why: "one report a month joins the carrier, beside two hundred reads that do without, and a rare join stays a join",
			colls: []coll{
				{name: "dobavnice", n: 1800, indexes: []string{"kupec", "mesec"}, doc: func(g gen, i int) bson.D {
					return d("_id", int64(i), "kupec", i%180, "mesec", i%24, "prevoznik", int64(g.IntN(30)), "kubik", g.money())
				}},
				{name: "prevozniki", n: 30, doc: func(g gen, i int) bson.D {
					return d("_id", int64(i), "ime", g.name(), "tablica", key("LJ", i), "tel", g.text(9))
				}},
			},
			traffic: []requests{
				{200, func(s *session, _ int) { s.find("dobavnice", d("kupec", s.IntN(180)), by{}) }},
				{2, func(s *session, _ int) {
					s.aggregate("dobavnice", match("mesec", s.IntN(24)), join("prevozniki", "prevoznik", "_id", "p"),
						project("kubik", 1, "p.ime", 1))
				}},
				{40, func(s *session, _ int) {
					s.update("prevozniki", d("_id", int64(s.IntN(30))), d("$set", d("ime", s.name())))
				}},
			},
		},
		{
			name: "pairings", service: "chess",
			why: "a pairing has the two players' names beside their keys already, and no read joins",
			colls: []coll{{name: "pairings", n: 1800, indexes: []string{"round"}, doc: func(g gen, i int) bson.D {
				return d("_id", ulid("W", i), "round", i%90, "white", d("id", key("pl", i%25), "name", g.name()),
					"black", d("id", key("pl", (i+7)%25), "name", g.name()), "board", i/90)
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) { s.find("pairings", d("round", s.IntN(90)), by{sort: d("board", 1)}) }},
			},
		},
		{
			name: "prețuri", service: "lottery", harm: "extref",
			why: "the odds that bets join change every second and are read about as often, so every change would write every copy",
			colls: []coll{
				{name: "prețuri", n: 1500, indexes: []string{"client"}, doc: func(g gen, i int) bson.D {
					return d("_id", uuid(44, i), "client", i%150, "cota_id", int32(g.IntN(40)), "miză", g.between(1, 100))
				}},
				{name: "cote", n: 40, doc: func(g gen, i int) bson.D {
					return d("_id", int32(i), "eveniment", g.text(16), "cota", g.Float64()*10, "limită", g.between(100, 9000), "notă",
						g.text(40))
				}},
			},
			traffic: []requests{
				{120, func(s *session, _ int) {
					s.aggregate("prețuri", match("client", s.IntN(150)), join("cote", "cota_id", "_id", "c"), d("$unwind", "$c"),
						project("miză", 1, "c.cota", 1))
				}},
				{400, func(s *session, _ int) {
					s.update("cote", d("_id", int32(s.IntN(40))), d("$set", d("cota", s.Float64()*10)))
				}},
			},
		},
	}
}
