package labels_test

import (
	"go.mongodb.org/mongo-driver/v2/bson"
)

// below is the ID of the node that the i-th node of a tree with n children each is under, or nil for the root.
func below(i, n int, id func(i int) any) any {
	if i == 0 {
		return nil
	}
	return id((i - 1) / n)
}

// climb is the stage $graphLookup in one collection.
func climb(from, start, connect, to, as string) bson.D {
	return d("$graphLookup", d("from", from, "startWith", start, "connectFromField", connect, "connectToField", to, "as", as))
}

// References and trees: extref, relation, tree.
func thirdRefCases() []labelled {
	return []labelled{
		{
			name: "prestiti", service: "museum", pays: "extref", fine: "relation",
			why: "each list of loans joins the name and the town of the museum, which change once in years",
			colls: []coll{
				{name: "prestiti", n: 1500, indexes: []string{"scade"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(30, i), "opera", key("OP", i), "museo", uuid(31, g.IntN(80)), "scade", at(i),
						"valore", g.IntN(900_000))
				}},
				{name: "musei", n: 80, doc: func(g gen, i int) bson.D {
					return d("_id", uuid(31, i), "nome", g.text(20), "città", g.city(), "direttore", g.name(),
						"storia", g.text(400), "sale", g.IntN(90))
				}},
			},
			traffic: []requests{
				{130, func(s *session, _ int) {
					s.aggregate("prestiti", match("scade", d("$gte", at(s.IntN(1400)))), d("$sort", d("scade", 1)),
						d("$limit", 20),
						join("musei", "museo", "_id", "m"), d("$unwind", "$m"), d("$project", d("opera", 1, "scade", 1,
							"m.nome", 1, "m.città", 1)))
				}},
				{2, func(s *session, i int) { s.update("musei", d("_id", uuid(31, i)), d("$set", d("nome", s.text(20)))) }},
			},
		},
		{
			name: "kippu", service: "festival", pays: "extref", fine: "relation",
			why: "every list of tickets populates title and day of the concert, which are fixed when tickets are sold",
			colls: []coll{
				{name: "kippu", n: 2000, indexes: []string{"購入者"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(32, i), "購入者", i%200, "公演", oid(33, g.IntN(60)), "席", key("A", i), "__v", 0)
				}},
				{name: "ensou", n: 60, doc: func(g gen, i int) bson.D {
					return d("_id", oid(33, i), "演目", g.text(15), "日", at(i*24), "解説", g.text(600), "指揮", g.name(),
						"曲目", g.some(vocabulary, 5))
				}},
			},
			traffic: []requests{
				{140, func(s *session, i int) {
					tickets := s.find("kippu", d("購入者", i%200), by{limit: 20})
					s.populate("ensou", tickets, "公演", keep("演目", "日"))
				}},
			},
		},
		{
			name: "rendezvous", service: "vet", pays: "extref", fine: "relation",
			why: "the calendar of a day joins name and phone of each owner, which seldom change, by a pipeline",
			colls: []coll{
				{name: "rendezvous", n: 1500, indexes: []string{"jour"}, doc: func(g gen, i int) bson.D {
					return d("_id", i, "jour", i/15, "heure", 8+i%10, "client", int64(g.IntN(300)),
						"motif", g.of("vaccin", "dents"))
				}},
				{name: "clients", n: 300, doc: func(g gen, i int) bson.D {
					return d("_id", int64(i), "nom", g.name(), "tel", key("06", i), "adresse", g.text(60),
						"notes", g.text(300), "solde", 0, "depuis", at(i))
				}},
			},
			traffic: []requests{
				{130, func(s *session, i int) {
					named := a{d("$match", d("$expr", d("$eq", a{"$_id", "$$c"}))), d("$project", d("_id", 0, "nom", 1,
						"tel", 1))}
					s.aggregate("rendezvous", match("jour", i%100), d("$sort", d("heure", 1)),
						d("$lookup", d("from", "clients", "let", d("c", "$client"), "pipeline", named, "as", "client")))
				}},
				{3, func(s *session, i int) { s.update("clients", d("_id", int64(i)), d("$set", d("tel", key("07", i)))) }},
			},
		},
		{
			name: "contratos", service: "power", pays: "extref", fine: "relation",
			why: "each contract is shown with name and price of its tariff, joined by the tariff's code, which changes once a year",
			colls: []coll{
				{name: "contratos", n: 1500, indexes: []string{"cliente"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(34, i), "cliente", i%500, "tarifa", key("T", g.IntN(40)), "alta", at(i))
				}},
				{name: "tarifas", n: 40, indexes: []string{"codigo"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(35, i), "codigo", key("T", i), "nombre", g.text(20), "centimos", g.between(8,
						40), "texto", g.text(900), "desde", at(i))
				}},
			},
			traffic: []requests{
				{140, func(s *session, i int) {
					s.aggregate("contratos", match("cliente", i%500), join("tarifas", "tarifa", "codigo", "t"),
						d("$project", d("alta", 1, "nombre", d("$first", "$t.nombre"), "precio", d("$first", "$t.centimos"))))
				}},
			},
		},
		{
			name: "müdahaleler", service: "fire", pays: "extref", fine: "relation",
			why: "an operation lists its stations, and every report joins their names, which do not change",
			colls: []coll{
				{name: "müdahaleler", n: 1200, indexes: []string{"tarih"}, doc: func(g gen, i int) bson.D {
					return d("_id", i, "tarih", at(i), "katilan", list(g.between(1, 4), func(int) any {
						return d("istasyon", g.IntN(50), "dakika", g.between(3, 30))
					}))
				}},
				{name: "istasyonlar", n: 50, doc: func(g gen, i int) bson.D {
					return d("_id", i, "ad", g.text(12), "ilce", g.city(), "tel", key("t", i), "amir", g.name(),
						"not", g.text(300))
				}},
			},
			traffic: []requests{
				{130, func(s *session, _ int) {
					s.aggregate("müdahaleler", match("tarih", d("$gte", at(s.IntN(1100)))), d("$limit", 15),
						join("istasyonlar", "katilan.istasyon", "_id", "ist"), d("$project", d("tarih", 1,
							"katilan", 1, "ist._id", 1, "ist.ad", 1)))
				}},
			},
		},
		{
			name: "stays", service: "parking", pays: "extref|relation",
			why: "a bill lists the stays of a month and asks for the garage of each, one at a time, to print its name",
			colls: []coll{
				{name: "stays", n: 2000, indexes: []string{"customer"}, doc: func(g gen, i int) bson.D {
					return d("_id", ulid("ST", i), "customer", i%100, "garage", oid(36, g.IntN(60)), "from", at(i),
						"minutes", g.IntN(900))
				}},
				{name: "car_parks", n: 60, doc: func(g gen, i int) bson.D {
					return d("_id", oid(36, i), "name", g.text(14), "street", g.text(20), "rules", g.text(500),
						"spaces", g.IntN(900), "owner", g.name())
				}},
			},
			traffic: []requests{
				{60, func(s *session, i int) {
					for _, stay := range s.find("stays", d("customer", i%100), by{sort: d("_id", 1), limit: 15}) {
						s.one("car_parks", d("_id", stay["garage"]), keep("name"))
					}
				}},
			},
		},
		{
			name: "hændelser", service: "genealogy", pays: "extref", fine: "relation",
			why: "each event joins the name of its parish and the name of its register, both of which stay",
			colls: []coll{
				{name: "hændelser", n: 1500, indexes: []string{"person"}, doc: func(g gen, i int) bson.D {
					return d("_id", i, "person", i%500, "slags", g.of("dåb", "vielse"), "år", 1700+i%200,
						"sogn", g.IntN(70), "bog", oid(37, g.IntN(90)))
				}},
				{name: "sogne", n: 70, doc: func(g gen, i int) bson.D {
					return d("_id", i, "navn", g.text(12), "herred", g.city(), "historie", g.text(500),
						"kirke", g.name(), "areal", i)
				}},
				{name: "kirkebøger", n: 90, doc: func(g gen, i int) bson.D {
					return d("_id", oid(37, i), "titel", g.text(20), "fra", 1650, "til", 1900,
						"beskrivelse", g.text(300), "sider", i*3)
				}},
			},
			traffic: []requests{
				{140, func(s *session, i int) {
					s.aggregate("hændelser", match("person", i%500), join("sogne", "sogn", "_id", "s"),
						join("kirkebøger", "bog", "_id", "b"),
						d("$project", d("slags", 1, "år", 1, "sted", d("$first", "$s.navn"), "kilde", d("$first", "$b.titel"))))
				}},
			},
		},
		{
			name: "zamówienia", service: "mine", harm: "extref",
			why: "the join is for the stock, which changes more often than it is read and has to be right at every moment",
			colls: []coll{
				{name: "zamówienia", n: 1200, indexes: []string{"szyb"}, doc: func(g gen, i int) bson.D {
					return d("_id", i, "szyb", i%60, "część", g.IntN(50), "ile", g.between(1, 9))
				}},
				{name: "magazyn", n: 50, doc: func(g gen, i int) bson.D {
					return d("_id", i, "kod", key("c", i), "stan", g.IntN(900), "półka", g.IntN(60), "opis", g.text(200))
				}},
			},
			traffic: []requests{
				{90, func(s *session, i int) {
					s.aggregate("zamówienia", match("szyb", i%60), join("magazyn", "część", "_id", "m"),
						d("$project", d("ile", 1, "stan", d("$first", "$m.stan"))))
				}},
				{220, func(s *session, _ int) {
					s.update("magazyn", d("_id", s.IntN(50)), d("$set", d("stan", s.IntN(900))))
				}},
			},
		},
		{
			name: "sesi", service: "quiz",
			why: "sessions are read without their host a hundred times for each of the few joins of a report",
			colls: []coll{
				{name: "sesi", n: 1500, doc: func(g gen, i int) bson.D {
					return d("_id", i, "pemandu", g.IntN(90), "mulai", at(i), "pemain", g.IntN(60))
				}},
				{name: "pemandu", n: 90, doc: func(g gen, i int) bson.D {
					return d("_id", i, "nama", g.name(), "kota", g.city(), "sejak", at(i), "email", key("m", i),
						"foto", g.text(200))
				}},
			},
			traffic: []requests{
				{210, func(s *session, _ int) { s.one("sesi", d("_id", s.IntN(1500)), nil) }},
				{2, func(s *session, _ int) {
					s.aggregate("sesi", match("_id", d("$lt", 100)), join("pemandu", "pemandu", "_id", "p"),
						d("$project", d("mulai", 1, "p.nama", 1)))
				}},
			},
		},
		{
			name: "sponsorships", service: "aid",
			why: "the page of a sponsorship needs the whole record of the child, a dozen fields that change all year",
			colls: []coll{
				{name: "sponsorships", n: 900, doc: func(g gen, i int) bson.D {
					return d("_id", oid(38, i), "child", i%600, "sponsor", g.name(), "cents", 3000, "since", at(i))
				}},
				{name: "children", n: 600, doc: func(g gen, i int) bson.D {
					return d("_id", i, "name", g.name(), "born", at(i), "village", g.city(), "school", g.text(12),
						"grade", i%10, "height", 100+i%60,
						"weight", 30, "health", g.text(80), "hobby", g.text(12), "siblings", i%7, "letter",
						g.text(200), "photo", g.text(60))
				}},
			},
			traffic: []requests{
				{110, func(s *session, _ int) {
					s.aggregate("sponsorships", match("_id", oid(38, s.IntN(900))), join("children", "child", "_id", "child"))
				}},
				{60, func(s *session, _ int) {
					s.update("children", d("_id", s.IntN(600)), d("$set", d("grade", s.IntN(10), "height", 120,
						"letter", s.text(200))))
				}},
			},
		},
		{
			name: "fahrten", service: "railway",
			why: "a trip already holds a copy of its line, and the reads do not join",
			colls: []coll{
				{name: "fahrten", n: 1500, indexes: []string{"tag"}, doc: func(g gen, i int) bson.D {
					return d("_id", i, "tag", i/30, "linie", d("_id", i%40, "name", key("RE", i%40), "version", 1),
						"pünktlich", i%9 != 0)
				}},
				{name: "linien", n: 40, doc: func(g gen, i int) bson.D {
					return d("_id", i, "name", key("RE", i), "version", 1, "betreiber", g.name(), "km", g.IntN(300))
				}},
			},
			traffic: []requests{
				{120, func(s *session, i int) { s.find("fahrten", d("tag", i%50), by{sort: d("_id", 1), limit: 40}) }},
				{10, func(s *session, _ int) { s.one("linien", d("_id", s.IntN(40)), nil) }},
			},
		},
		{
			name: "veckor", service: "recipes", fine: "relation",
			why: "the dishes lie in arrays of days, which are an array as well, and a copy cannot lie in an array of an array",
			colls: []coll{
				{name: "veckor", n: 600, doc: func(g gen, i int) bson.D {
					return d("_id", i, "hushåll", i%90, "dagar", list(7, func(j int) any {
						return d("dag", j, "rätter", a{d("id", g.IntN(200), "antal", 2), d("id", g.IntN(200), "antal", 4)})
					}))
				}},
				{name: "rättlista", n: 200, doc: func(g gen, i int) bson.D {
					return d("_id", i, "namn", g.text(15), "tid", g.between(10, 90), "gör_så_här", g.text(500),
						"bild", g.text(60), "kök", g.city(), "betyg", 4)
				}},
			},
			traffic: []requests{
				{120, func(s *session, _ int) {
					s.aggregate("veckor", match("_id", s.IntN(600)), join("rättlista", "dagar.rätter.id", "_id", "r"),
						d("$project", d("dagar", 1, "r._id", 1, "r.namn", 1)))
				}},
			},
		},
		{
			name: "laboratori", service: "museum", pays: "relation",
			why: "a workshop holds a hundred places, and nearly every request is for one of them, by its card or to change it",
			colls: []coll{{name: "laboratori", n: 300, indexes: []string{"iscritti.tessera"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(40, i), "titolo", g.text(20), "iscritti", list(g.between(60, 120), func(j int) any {
					return d("_id", oid(41, i*200+j), "tessera", int64(i*200+j), "nome", g.name(), "pagato", j%3 == 0,
						"nota", g.text(80))
				}))
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) {
					s.one("laboratori", d("iscritti.tessera", int64(s.IntN(300)*200+s.IntN(60))), d("iscritti.$", 1))
				}},
				{60, func(s *session, _ int) {
					s.update("laboratori", d("iscritti.tessera", int64(s.IntN(300)*200+s.IntN(60))),
						d("$set", d("iscritti.$.pagato", true)))
				}},
			},
		},
		{
			name: "cliniques", service: "vet", pays: "relation",
			why: "stays of animals lie inside their clinic and are found one at a time by $unwind, out of 80 and more",
			colls: []coll{{name: "cliniques", n: 250, doc: func(g gen, i int) bson.D {
				return d("_id", i, "ville", g.city(), "sejours", list(g.between(80, 130), func(j int) any {
					return d("_id", uuid(42, i*200+j), "animal", g.name(), "box", j, "soins", g.text(100), "entree", at(j))
				}))
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) {
					n := s.IntN(250)
					s.aggregate("cliniques", match("_id", n), d("$unwind", "$sejours"), match("sejours._id", uuid(42,
						n*200+s.IntN(80))),
						d("$replaceRoot", d("newRoot", "$sejours")))
				}},
				{40, func(s *session, _ int) {
					n := s.IntN(250)
					s.update("cliniques", d("_id", n, "sejours._id", uuid(42, n*200+s.IntN(80))),
						d("$set", d("sejours.$.soins", s.text(100))))
				}},
			},
		},
		{
			name: "families", service: "aid", pays: "relation", fine: "extref|computed|subset",
			why: "a family has three or four members, which no request reads without it, and each read of a family joins them",
			colls: []coll{
				{name: "families", n: 500, doc: func(g gen, i int) bson.D {
					return d("_id", oid(43, i), "village", g.city(), "since", at(i), "house", g.text(12))
				}},
				{name: "members", n: 1700, indexes: []string{"family"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(44, i), "family", oid(43, i%500), "name", g.name(), "born", 1950+i%70,
						"role", g.of("mother", "father", "child"))
				}},
			},
			traffic: []requests{
				{150, func(s *session, _ int) {
					s.aggregate("families", match("_id", oid(43, s.IntN(500))), join("members", "_id", "family", "members"))
				}},
			},
		},
		{
			name: "brugere", service: "genealogy", pays: "relation", fine: "extref|split",
			why: "each user has one document of settings, which is only ever joined to the user, so it belongs inside",
			colls: []coll{
				{name: "brugere", n: 800, indexes: []string{"email"}, doc: func(g gen, i int) bson.D {
					return d("_id", int64(i), "email", key("u", i), "navn", g.name())
				}},
				{name: "indstillinger", n: 800, indexes: []string{"bruger"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(45, i), "bruger", int64(i), "sprog", g.of("da", "en"), "mørk", i%2 == 0,
						"mails", g.IntN(9), "zone", g.city(),
						"side", g.between(10, 100), "font", g.of("s", "m", "l"))
				}},
			},
			traffic: []requests{
				{150, func(s *session, _ int) {
					s.aggregate("brugere", match("email", key("u", s.IntN(800))), join("indstillinger", "_id",
						"bruger", "i"), d("$unwind", "$i"))
				}},
			},
		},
		{
			name: "zugbildung", service: "railway", pays: "relation|extref",
			why: "a train lists its coaches, and the service reads each by itself, which one query in their order would do",
			colls: []coll{
				{name: "zugbildung", n: 400, doc: func(g gen, i int) bson.D {
					return d("_id", key("Z", i), "wagen", list(g.between(6, 12), func(int) any { return g.IntN(900) }))
				}},
				{name: "reisezugwagen", n: 900, doc: func(g gen, i int) bson.D {
					return d("_id", i, "bauart", g.of("Bpmz", "Apmz"), "plätze", g.between(40, 90),
						"baujahr", 1970+i%50, "zustand", g.text(100))
				}},
			},
			traffic: []requests{
				{60, func(s *session, _ int) {
					train := s.one("zugbildung", d("_id", key("Z", s.IntN(400))), nil)
					for _, id := range train["wagen"].(a) {
						s.one("reisezugwagen", d("_id", id), nil)
					}
				}},
			},
		},
		{
			name: "kelas", service: "quiz", pays: "relation", fine: "outlier|subset",
			why: "every class has 600 to 1,200 pupils in an array of IDs that only grows, which suits some hundred at most",
			colls: []coll{
				{name: "kelas", n: 150, doc: func(g gen, i int) bson.D {
					return d("_id", oid(46, i), "nama", g.text(12), "siswa", list(g.between(600, 1200),
						func(int) any { return oid(47, g.IntN(4000)) }))
				}},
				{name: "siswa", n: 4000, doc: func(g gen, i int) bson.D {
					return d("_id", oid(47, i), "nama", g.name(), "kota", g.city())
				}},
			},
			traffic: []requests{
				{150, func(s *session, _ int) {
					s.update("kelas", d("_id", oid(46, s.IntN(150))), d("$push", d("siswa", oid(47, s.IntN(4000)))))
				}},
				{60, func(s *session, _ int) {
					class := s.one("kelas", d("_id", oid(46, s.IntN(150))), nil)
					s.find("siswa", d("_id", d("$in", class["siswa"].(a)[:20])), by{})
				}},
			},
		},
		{
			name: "szyby", service: "mine", pays: "relation", fine: "extref|tree|subset",
			why: "the overview reads the shafts of a mine and then the lifts of each, one query for each shaft",
			colls: []coll{
				{name: "szyby", n: 200, indexes: []string{"kopalnia"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(48, i), "kopalnia", i%20, "metry", g.between(200, 1200))
				}},
				{name: "windy", n: 800, indexes: []string{"szyb"}, doc: func(g gen, i int) bson.D {
					return d("_id", i, "szyb", oid(48, i%200), "udźwig", g.between(2, 30), "przegląd", at(i))
				}},
			},
			traffic: []requests{
				{50, func(s *session, i int) {
					for _, shaft := range s.find("szyby", d("kopalnia", i%20), by{}) {
						s.find("windy", d("szyb", shaft["_id"]), by{})
					}
				}},
			},
		},
		{
			name: "itfaiyeciler", service: "fire",
			why: "one to three phones lie inside their person, are read with it and never alone",
			colls: []coll{{name: "itfaiyeciler", n: 900, doc: func(g gen, i int) bson.D {
				return d("_id", i, "ad", g.name(), "telefonlar", list(g.between(1, 3),
					func(j int) any { return d("tur", g.of("ev", "cep"), "no", key("5", i*3+j)) }))
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) { s.one("itfaiyeciler", d("_id", s.IntN(900)), nil) }},
				{30, func(s *session, i int) {
					s.update("itfaiyeciler", d("_id", s.IntN(900), "telefonlar.tur", "cep"),
						d("$set", d("telefonlar.$.no", key("9", i))))
				}},
			},
		},
		{
			name: "haken", service: "festival", fine: "relation",
			why: "a shift names its four to eight people, and one query gets all of them, as the package would",
			colls: []coll{
				{name: "haken", n: 500, doc: func(g gen, i int) bson.D {
					return d("_id", i, "時間", at(i), "係", list(g.between(4, 8), func(int) any { return g.IntN(300) }))
				}},
				{name: "kakari", n: 300, doc: func(g gen, i int) bson.D {
					return d("_id", i, "名前", g.name(), "電話", key("090", i), "資格", g.some(vocabulary, 6),
						"備考", g.text(60), "住所", g.city(), "年齢", 20+i%50)
				}},
			},
			traffic: []requests{
				{110, func(s *session, _ int) {
					shift := s.one("haken", d("_id", s.IntN(500)), nil)
					s.find("kakari", d("_id", d("$in", shift["係"])), by{})
				}},
			},
		},
		{
			name: "måleserier", service: "weather",
			why: "thousands of files refer to their campaign by an indexed field, are read alone, and are joined by nobody",
			colls: []coll{
				{name: "måleserier", n: 40, doc: func(g gen, i int) bson.D {
					return d("_id", i, "navn", g.text(15), "leder", g.name())
				}},
				{name: "filer", n: 4000, indexes: []string{"serie,lastet"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(49, i), "serie", i%40, "lastet", at(i), "sti", g.text(40), "kB", g.IntN(9000))
				}},
			},
			traffic: []requests{
				{120, func(s *session, i int) {
					s.find("filer", d("serie", i%40), by{sort: d("lastet", -1), limit: 25})
				}},
				{30, func(s *session, _ int) { s.one("måleserier", d("_id", s.IntN(40)), nil) }},
			},
		},
		{
			name: "medidores", service: "power",
			why: "meters are read one at a time because each request scans the label of one, and no earlier answer names them",
			colls: []coll{{name: "medidores", n: 2000, doc: func(g gen, i int) bson.D {
				return d("_id", key("MD", i), "modelo", g.of("A1", "B7"), "direccion", g.text(30), "alta", at(i))
			}}},
			traffic: []requests{
				{250, func(s *session, _ int) { s.one("medidores", d("_id", key("MD", s.IntN(2000))), nil) }},
			},
		},
		{
			name: "kategorier", service: "recipes", pays: "tree",
			why: "a menu reads everything below a category by $graphLookup, over five levels",
			colls: []coll{{name: "kategorier", n: 1000, indexes: []string{"överordnad"}, doc: func(g gen, i int) bson.D {
				return d("_id", i, "namn", g.text(10), "överordnad", below(i, 4, func(i int) any { return i }))
			}}},
			traffic: []requests{
				{90, func(s *session, _ int) {
					s.aggregate("kategorier", match("_id", s.IntN(60)), climb("kategorier", "$_id", "_id",
						"överordnad", "under"))
				}},
				{6, func(s *session, i int) {
					s.insert("kategorier", d("_id", 1000+i, "namn", s.text(10), "överordnad", s.IntN(300)))
				}},
			},
		},
		{
			name: "zespoły", service: "mine", pays: "tree", fine: "relation|extref",
			why: "the way from a part to its machine is climbed by one findOne for each level",
			colls: []coll{{name: "zespoły", n: 1200, doc: func(g gen, i int) bson.D {
				return d("_id", key("Z", i), "nazwa", g.text(12), "nadrzędny", below(i, 3,
					func(i int) any { return key("Z", i) }))
			}}},
			traffic: []requests{
				{90, func(s *session, _ int) {
					for id := any(key("Z", s.between(400, 1199))); id != nil; {
						id = s.one("zespoły", d("_id", id), nil)["nadrzędny"]
					}
				}},
			},
		},
		{
			name: "stellen", service: "railway", pays: "tree",
			why: "a post names the posts below it in an array, and the chart of a division follows them down with $graphLookup",
			colls: []coll{{name: "stellen", n: 900, doc: func(g gen, i int) bson.D {
				children := a{}
				for child := 3*i + 1; child <= 3*i+3 && child < 900; child++ {
					children = append(children, oid(50, child))
				}
				return d("_id", oid(50, i), "titel", g.text(15), "unter", children)
			}}},
			traffic: []requests{
				{90, func(s *session, _ int) {
					s.aggregate("stellen", match("_id", oid(50, s.IntN(40))), climb("stellen", "$unter", "unter",
						"_id", "alle"))
				}},
			},
		},
		{
			name: "stamtavle", service: "genealogy", pays: "tree",
			why: "each page shows the line of fathers up to the first one, and all descendants of a man, both by $graphLookup",
			colls: []coll{{name: "stamtavle", n: 1100, indexes: []string{"far"}, doc: func(g gen, i int) bson.D {
				return d("_id", uuid(51, i), "navn", g.name(), "født", 1600+i/5, "far", below(i, 2,
					func(i int) any { return uuid(51, i) }))
			}}},
			traffic: []requests{
				{80, func(s *session, _ int) {
					s.aggregate("stamtavle", match("_id", uuid(51, s.IntN(1100))), climb("stamtavle", "$far", "far",
						"_id", "fædre"))
				}},
				{50, func(s *session, _ int) {
					s.aggregate("stamtavle", match("_id", uuid(51, s.IntN(60))), climb("stamtavle", "$_id", "_id",
						"far", "efterkommere"))
				}},
			},
		},
		{
			name: "eria", service: "festival", pays: "tree", fine: "extref|relation",
			why: "each event climbs the areas above its own by $graphLookup, which an array of ancestors in the area would hold",
			colls: []coll{
				{name: "eria", n: 600, indexes: []string{"上位"}, doc: func(g gen, i int) bson.D {
					return d("_id", i, "地名", g.city(), "上位", below(i, 3, func(i int) any { return i }))
				}},
				{name: "moyooshi", n: 1500, doc: func(g gen, i int) bson.D {
					return d("_id", i, "題", g.text(12), "場所", g.between(100, 599), "開始", at(i))
				}},
			},
			traffic: []requests{
				{110, func(s *session, _ int) {
					s.aggregate("moyooshi", match("_id", s.IntN(1500)), climb("eria", "$場所", "上位", "_id", "地域"))
				}},
			},
		},
		{
			name: "chapters", service: "aid", pays: "tree", fine: "relation",
			why: "all chapters below one are read level by level, a query for each level, six of them or so",
			colls: []coll{{name: "chapters", n: 1000, indexes: []string{"parentId"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(52, i), "name", g.city(), "parentId", below(i, 3, func(i int) any { return oid(52, i) }))
			}}},
			traffic: []requests{
				{50, func(s *session, _ int) {
					for level := (a{oid(52, s.IntN(13))}); len(level) > 0; {
						level = ids(s.find("chapters", d("parentId", d("$in", level)), by{}))
					}
				}},
			},
		},
		{
			name: "alimentadores", service: "power", pays: "tree", fine: "relation",
			why: "what goes dark below a feeder is found by one query for each node, dozens for one outage",
			colls: []coll{{name: "alimentadores", n: 900, indexes: []string{"padre"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(53, i), "kV", g.of("110", "20", "1"), "padre", below(i, 3,
					func(i int) any { return oid(53, i) }))
			}}},
			traffic: []requests{
				{16, func(s *session, _ int) {
					for todo := (a{oid(53, s.between(9, 39))}); len(todo) > 0; todo = todo[1:] {
						todo = append(todo, ids(s.find("alimentadores", d("padre", todo[0]), by{}))...)
					}
				}},
			},
		},
		{
			name: "bahnhöfe", service: "railway", harm: "tree",
			why: "neighbours of stations make circles, which a tree refuses, and $graphLookup with a depth is right for them",
			colls: []coll{{name: "bahnhöfe", n: 500, doc: func(g gen, i int) bson.D {
				return d("_id", i, "name", g.city(), "nachbarn", a{(i + 1) % 500, (i + 499) % 500, (i + 40) % 500,
					(i + 460) % 500})
			}}},
			traffic: []requests{
				{80, func(s *session, _ int) {
					s.aggregate("bahnhöfe", match("_id", s.IntN(500)), d("$graphLookup", d("from", "bahnhöfe",
						"startWith", "$nachbarn",
						"connectFromField", "nachbarn", "connectToField", "_id", "maxDepth", 2, "as", "umkreis")))
				}},
			},
		},
		{
			name: "rayons", service: "vet",
			why: "there are two levels, and one query with an equality reads the lower one",
			colls: []coll{{name: "rayons", n: 400, indexes: []string{"parent"}, doc: func(g gen, i int) bson.D {
				if i < 20 {
					return d("_id", i, "nom", g.text(10), "parent", nil)
				}
				return d("_id", i, "nom", g.text(10), "parent", i%20)
			}}},
			traffic: []requests{
				{40, func(s *session, _ int) { s.find("rayons", d("parent", nil), by{sort: d("_id", 1)}) }},
				{80, func(s *session, _ int) { s.find("rayons", d("parent", s.IntN(20)), by{sort: d("_id", 1)}) }},
			},
		},
		{
			name: "områder", service: "weather",
			why: "each area already holds its ancestors, and both questions are one find",
			colls: []coll{{name: "områder", n: 900, indexes: []string{"over", "forelder"}, doc: func(g gen, i int) bson.D {
				var up a
				for n := i; n > 0; {
					n = (n - 1) / 4
					up = append(a{n}, up...)
				}
				return d("_id", i, "navn", g.city(), "over", up, "forelder", below(i, 4, func(i int) any { return i }))
			}}},
			traffic: []requests{
				{80, func(s *session, _ int) { s.find("områder", d("over", s.between(1, 60)), by{}) }},
				{50, func(s *session, _ int) {
					area := s.one("områder", d("_id", s.between(100, 899)), nil)
					s.find("områder", d("_id", d("$in", area["over"])), by{})
				}},
			},
		},
		{
			name: "topik", service: "quiz",
			why: "the tree of 60 topics is small and always read whole, for which one find is enough",
			colls: []coll{{name: "topik", n: 60, doc: func(g gen, i int) bson.D {
				return d("_id", i, "nama", g.text(10), "induk", below(i, 4, func(i int) any { return i }))
			}}},
			traffic: []requests{
				{100, func(s *session, _ int) { s.find("topik", bson.D{}, by{}) }},
			},
		},
		{
			name: "tipologie", service: "museum", fine: "tree",
			why: "the parent lies below another field, and the package takes plain names for it only",
			colls: []coll{{name: "tipologie", n: 800, indexes: []string{"scheda.padre"}, doc: func(g gen, i int) bson.D {
				return d("_id", i, "scheda", d("nome", g.text(10), "padre", below(i, 4, func(i int) any { return i })))
			}}},
			traffic: []requests{
				{90, func(s *session, _ int) {
					s.aggregate("tipologie", match("_id", s.IntN(50)), climb("tipologie", "$_id", "_id",
						"scheda.padre", "sotto"))
				}},
			},
		},
	}
}
