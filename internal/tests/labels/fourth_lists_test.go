package labels_test

import (
	"fmt"
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Lists in documents, and large documents: outlier, subset, split.
func fourthListCases() []labelled {
	return []labelled{
		{
			name: "paĝoj", service: "wiki", pays: "outlier", fine: "relation",
			why: "a page has a dozen watchers, five pages have 4,500, and each save loads the page with all of them to notify them",
			colls: []coll{{name: "paĝoj", n: 1000, doc: func(g gen, i int) bson.D {
				return d("_id", key("paĝo", i), "teksto", g.text(200), "versio", g.between(1, 90), "atentantoj",
					list(rare(i, 200, 4500, g.near(30)), func(int) any { return meteor('u', g.IntN(90_000)) }))
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) { s.one("paĝoj", d("_id", key("paĝo", s.IntN(1000))), nil) }},
				{30, func(s *session, _ int) {
					s.update("paĝoj", d("_id", key("paĝo", s.IntN(1000))), d("$addToSet", d("atentantoj", meteor('u',
						s.IntN(90_000)))))
				}},
			},
		},
		{
			name: "piva", service: "brewery", pays: "outlier", fine: "relation",
			why: "a beer is on tap in up to 25 pubs, four flagships in 3,000, and the sheet of a beer lists all its pubs",
			colls: []coll{{name: "piva", n: 900, indexes: []string{"nazev"}, doc: func(g gen, i int) bson.D {
				return d("_id", int32(i+1), "nazev", key("pivo", i), "stupne", g.between(8, 20), "hospody",
					list(rare(i, 225, 3000, g.between(1, 25)), func(int) any {
						return d("jmeno", g.text(14), "mesto", g.city(), "litru", g.between(20, 300))
					}))
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) { s.find("piva", d("nazev", key("pivo", s.IntN(900))), by{limit: 1}) }},
				{25, func(s *session, _ int) {
					pub := d("jmeno", s.text(14), "mesto", s.city(), "litru", 50)
					s.update("piva", d("nazev", key("pivo", s.IntN(900))), d("$push", d("hospody", pub)))
				}},
			},
		},
		{
			name: "coreografies", service: "dance", pays: "outlier",
			why: "a choreography has up to 40 dancers with their places, five flash mobs have 4,000, and the plan draws all of them",
			colls: []coll{{name: "coreografies", n: 1000, doc: func(g gen, i int) bson.D {
				return d("_id", meteor('c', i), "títol", g.text(22), "estil", g.of("sardana", "jota", "tango"), "ballarins",
					list(rare(i, 200, 4000, g.between(2, 40)), func(j int) any {
						return d("nom", g.name(), "fila", j/20, "lloc", j%20)
					}))
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) { s.one("coreografies", d("_id", meteor('c', s.IntN(1000))), nil) }},
				{30, func(s *session, i int) {
					dancer := d("nom", s.name(), "fila", 9, "lloc", i)
					s.update("coreografies", d("_id", meteor('c', s.IntN(1000))), d("$push", d("ballarins", dancer)))
				}},
			},
		},
		{
			name: "수업", service: "gym", pays: "outlier", fine: "relation",
			why: "a class has up to 30 members signed up, four online classes have 6,000, and the trainer loads a class with its list",
			colls: []coll{{name: "수업", n: 1000, doc: func(g gen, i int) bson.D {
				return d("_id", oid(1, i), "이름", g.text(18), "시작", at(i), "신청자",
					list(rare(i, 250, 6000, g.near(30)), func(int) any { return g.IntN(500_000) }), "__v", 0)
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) { s.aggregate("수업", match("_id", oid(1, s.IntN(1000))), d("$limit", 1)) }},
				{40, func(s *session, _ int) {
					s.findAndUpdate("수업", d("_id", oid(1, s.IntN(1000))), d("$addToSet", d("신청자", s.IntN(500_000)),
						"$inc", d("__v", 1)))
				}},
			},
		},
		{
			name: "duyurular", service: "payroll", pays: "outlier", fine: "relation",
			why: "a notice to a team has some dozen receipts, five to all have 5,000, and HR opens a notice with all of them",
			colls: []coll{{name: "duyurular", n: 1000, indexes: []string{"no"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(2, i), "no", i, "konu", g.text(30), "makbuzlar",
					list(rare(i, 200, 5000, g.between(3, 45)), func(int) any {
						return d("sicil", g.IntN(30_000), "imza", g.text(12))
					}))
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) { s.find("duyurular", d("no", s.IntN(1000)), by{limit: 1}) }},
				{30, func(s *session, i int) {
					s.update("duyurular", d("no", s.IntN(1000)), d("$push", d("makbuzlar", d("$each",
						a{d("sicil", 90_000+i, "imza", s.text(12))}))))
				}},
			},
		},
		{
			name: "lavat", service: "warehouse", pays: "outlier",
			why: "a pallet has up to 40 serial numbers, four of small parts have 5,000, and the loading gate checks all of a pallet",
			colls: []coll{{name: "lavat", n: 1000, indexes: []string{"sscc"}, doc: func(g gen, i int) bson.D {
				return d("_id", snow(1, i), "sscc", key("38", i), "paino", g.between(10, 900), "sarjanumerot",
					list(rare(i, 250, 5000, g.between(1, 40)), func(j int) any { return fmt.Sprintf("SN%06d-%05d", i, j) }))
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) { s.one("lavat", d("sscc", key("38", s.IntN(1000))), nil) }},
				{25, func(s *session, i int) {
					more := list(3, func(j int) any { return fmt.Sprintf("SX%06d-%05d", i, j) })
					s.bulk("lavat", d("sscc", key("38", s.IntN(1000))), d("$push", d("sarjanumerot", d("$each", more))))
				}},
			},
		},
		{
			name: "hyllyt", service: "warehouse", harm: "outlier", fine: "relation|split",
			why: "every shelf holds seven to nine hundred boxes, so none is an outlier, and all lists are long",
			colls: []coll{{name: "hyllyt", n: 150, doc: func(g gen, i int) bson.D {
				return d("_id", key("H", i), "käytävä", i/10, "laatikot",
					list(g.between(700, 900), func(j int) any { return d("n", j, "tuote", g.IntN(4000)) }))
			}}},
			traffic: []requests{
				{100, func(s *session, _ int) { s.one("hyllyt", d("_id", key("H", s.IntN(150))), nil) }},
				{15, func(s *session, i int) {
					s.update("hyllyt", d("_id", key("H", s.IntN(150))), d("$push", d("laatikot", d("n", 900+i, "tuote", i))))
				}},
			},
		},
		{
			name: "quartos", service: "hotel",
			why: "a room has up to ten amenities by its nature, and is read with them",
			colls: []coll{{name: "quartos", n: 800, doc: func(g gen, i int) bson.D {
				return d("_id", key("Q", i), "andar", i/40, "camas", g.between(1, 4), "comodidades", g.some(vocabulary,
					g.between(2, 10)))
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) { s.one("quartos", d("_id", key("Q", s.IntN(800))), nil) }},
				{20, func(s *session, _ int) {
					s.update("quartos", d("_id", key("Q", s.IntN(800))), d("$addToSet", d("comodidades", s.of("cofre", "varanda"))))
				}},
			},
		},
		{
			name: "manifests", service: "airport", harm: "outlier", fine: "relation",
			why: "passengers are changed in place all the time as they board, which the manual of outlier rules out",
			colls: []coll{{name: "manifests", n: 500, doc: func(g gen, i int) bson.D {
				return d("_id", uuid(1, i), "flight", key("AF", i), "pax",
					list(rare(i, 250, 1400, g.between(10, 60)), func(j int) any {
						return d("seat", j, "name", g.name(), "state", "booked")
					}))
			}}},
			traffic: []requests{
				{60, func(s *session, _ int) { s.one("manifests", d("_id", uuid(1, s.IntN(500))), nil) }},
				{160, func(s *session, _ int) {
					s.update("manifests", d("_id", uuid(1, s.IntN(500)), "pax.seat", s.IntN(10)),
						d("$set", d("pax.$.state", s.of("checked in", "boarded"))))
				}},
			},
		},
		{
			name: "hàng_đợi", service: "taxi",
			why: "a stand has a queue of drivers that is shortened by $pop as fast as it grows, so it never gets long",
			colls: []coll{{name: "hàng_đợi", n: 300, doc: func(g gen, i int) bson.D {
				return d("_id", key("bến", i), "quận", g.between(1, 12),
					"xe", list(g.between(2, 14), func(int) any { return g.IntN(8000) }))
			}}},
			traffic: []requests{
				{60, func(s *session, _ int) {
					s.update("hàng_đợi", d("_id", key("bến", s.IntN(300))), d("$push", d("xe", s.IntN(8000))))
				}},
				{60, func(s *session, _ int) {
					s.update("hàng_đợi", d("_id", key("bến", s.IntN(300))), d("$pop", d("xe", -1)))
				}},
				{80, func(s *session, _ int) { s.one("hàng_đợi", d("_id", key("bến", s.IntN(300))), nil) }},
			},
		},
		{
			name: "estilo_gidak", service: "translation",
			why: "a style guide has one to two hundred rules, all of about that length, and the editor always needs all of them",
			colls: []coll{{name: "estilo_gidak", n: 200, doc: func(g gen, i int) bson.D {
				return d("_id", key("gida", i), "hizkuntza", g.of("eu", "fr", "es"),
					"arauak", list(g.between(100, 200), func(j int) any { return d("zk", j, "testua", g.text(60)) }))
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) { s.one("estilo_gidak", d("_id", key("gida", s.IntN(200))), nil) }},
				{3, func(s *session, i int) {
					s.update("estilo_gidak", d("_id", key("gida", s.IntN(200))), d("$push", d("arauak", d("zk", 201+i,
						"testua", s.text(60)))))
				}},
			},
		},
		{
			name: "pénztárak", service: "pharmacy",
			why: "each $push has a $slice, so a till keeps its 20 last sales and no more",
			colls: []coll{{name: "pénztárak", n: 200, doc: func(g gen, i int) bson.D {
				return d("_id", int32(i), "bolt", g.city(),
					"utolsó", list(20, func(int) any { return d("ft", g.between(200, 40_000), "vevő", g.IntN(9000)) }))
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) {
					sale := d("ft", s.between(200, 40_000), "vevő", s.IntN(9000))
					s.update("pénztárak", d("_id", int32(s.IntN(200))), d("$push", d("utolsó", d("$each", a{sale}, "$slice", -20))))
				}},
				{100, func(s *session, _ int) { s.one("pénztárak", d("_id", int32(s.IntN(200))), nil) }},
			},
		},
		{
			name: "hotéis", service: "hotel", pays: "subset", fine: "relation",
			why: "the page of a hotel shows the five newest of its hundred or more reviews, and is read far more often than written",
			colls: []coll{{name: "hotéis", n: 250, doc: func(g gen, i int) bson.D {
				return d("_id", int64(i+1), "nome", g.text(16), "cidade", g.city(), "avaliações",
					list(g.between(80, 260), func(j int) any {
						return d("autor", g.name(), "nota", g.between(1, 5), "texto", g.text(80), "quando", at(j*9))
					}), "_class", "br.hotel.Hotel")
			}}},
			traffic: []requests{
				{160, func(s *session, _ int) {
					s.find("hotéis", d("_id", int64(s.IntN(250)+1)), by{fields: d("avaliações", d("$slice", -5)), limit: 1})
				}},
				{10, func(s *session, i int) {
					review := d("autor", s.name(), "nota", 4, "texto", s.text(80), "quando", at(8000+i))
					s.update("hotéis", d("_id", int64(s.IntN(250)+1)), d("$push", d("avaliações", review)))
				}},
			},
		},
		{
			name: "gyógyszerek", service: "pharmacy", pays: "subset", fine: "relation",
			why: "the sheet of a medicine shows the ten newest reports of side effects, which stand first, of some two hundred",
			colls: []coll{{name: "gyógyszerek", n: 250, indexes: []string{"ogyi"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(3, i), "ogyi", key("OGYI", i), "név", g.text(15), "jelentések",
					list(g.between(90, 300), func(j int) any {
						return d("kor", g.between(1, 95), "leírás", g.text(70),
							"nap", at(8000-j*5))
					}))
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) {
					s.one("gyógyszerek", d("ogyi", key("OGYI", s.IntN(250))), d("név", 1, "jelentések", d("$slice", 10)))
				}},
				{10, func(s *session, i int) {
					report := d("kor", 40, "leírás", s.text(70), "nap", at(8001+i))
					s.update("gyógyszerek", d("ogyi", key("OGYI", s.IntN(250))),
						d("$push", d("jelentések", d("$each", a{report}, "$position", 0))))
				}},
			},
		},
		{
			name: "gates", service: "airport", pays: "subset", fine: "bucket|relation",
			why: "the screens read the last eight announcements of a gate all the time, of hundreds that its document keeps",
			colls: []coll{{name: "gates", n: 120, indexes: []string{"terminal,number"}, doc: func(g gen, i int) bson.D {
				return d("_id", uuid(2, i), "terminal", g.of("A", "B", "C"), "number", i, "announcements",
					list(g.between(200, 500), func(j int) any {
						return d("flight", key("BA", j), "text", g.text(50),
							"made", minute(j*7))
					}))
			}}},
			traffic: []requests{
				{200, func(s *session, _ int) {
					s.aggregate("gates", match("_id", uuid(2, s.IntN(120))),
						d("$project", d("number", 1, "announcements", d("$slice", a{"$announcements", -8}))))
				}},
				{12, func(s *session, i int) {
					made := d("flight", key("LH", i), "text", s.text(50), "made", minute(5000+i))
					s.update("gates", d("_id", uuid(2, s.IntN(120))), d("$push", d("announcements", made)))
				}},
			},
		},
		{
			name: "løyper", service: "ski", pays: "subset", fine: "relation",
			why: "the map shows the three newest reports on a run, of a hundred or more that its document has",
			colls: []coll{{name: "løyper", n: 200, doc: func(g gen, i int) bson.D {
				return d("_id", oid(4, i), "navn", g.text(14), "farge", g.of("grønn", "blå", "rød", "svart"), "rapporter",
					list(g.between(70, 220), func(j int) any { return d("av", g.name(), "føre", g.text(60), "kl", at(j*11)) }))
			}}},
			traffic: []requests{
				{160, func(s *session, _ int) {
					s.find("løyper", d("farge", s.of("grønn", "blå", "rød", "svart")),
						by{fields: d("navn", 1, "rapporter", d("$slice", -3)), limit: 20})
				}},
				{10, func(s *session, i int) {
					s.update("løyper", d("_id", oid(4, s.IntN(200))), d("$push", d("rapporter",
						d("av", s.name(), "føre", s.text(60), "kl", at(8000+i)))))
				}},
			},
		},
		{
			name: "기록판", service: "gym", pays: "subset", fine: "outlier|relation",
			why: "a challenge's board is sorted by points at each push, has no bound, and shows the best ten of a hundred",
			colls: []coll{{name: "기록판", n: 150, doc: func(g gen, i int) bson.D {
				return d("_id", oid(5, i), "대회", key("도전", i), "기록",
					list(g.between(90, 250), func(j int) any { return d("회원", g.name(), "점수", 5000-j*15, "메모", g.text(40)) }))
			}}},
			traffic: []requests{
				{160, func(s *session, _ int) {
					s.one("기록판", d("_id", oid(5, s.IntN(150))), d("기록", d("$slice", 10)))
				}},
				{12, func(s *session, _ int) {
					result := d("회원", s.name(), "점수", s.between(1000, 5000), "메모", s.text(40))
					s.update("기록판", d("_id", oid(5, s.IntN(150))), d("$push", d("기록", d("$each", a{result},
						"$sort", d("점수", -1)))))
				}},
			},
		},
		{
			name: "proiektuak", service: "translation", pays: "subset", fine: "relation",
			why: "the list of a client's projects shows the last four remarks on each, of a hundred and more",
			colls: []coll{{name: "proiektuak", n: 240, indexes: []string{"bezeroa"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(6, i), "bezeroa", i%40, "izena", g.text(20), "oharrak",
					list(g.between(80, 200), func(j int) any { return d("nork", g.name(), "testua", g.text(90), "data", at(j*20)) }))
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) {
					s.find("proiektuak", d("bezeroa", s.IntN(40)), by{fields: d("izena", 1, "oharrak", d("$slice", -4))})
				}},
				{10, func(s *session, i int) {
					s.findAndUpdate("proiektuak", d("_id", oid(6, s.IntN(240))), d("$push", d("oharrak",
						d("nork", s.name(), "testua", s.text(90), "data", at(8000+i)))))
				}},
			},
		},
		{
			name: "hytter", service: "ski",
			why: "a cabin has at most twelve short notes and shows three, and a few dozen small items stay in the parent",
			colls: []coll{{name: "hytter", n: 600, doc: func(g gen, i int) bson.D {
				return d("_id", int32(i), "navn", g.text(12), "senger", g.between(2, 16),
					"notater", list(g.between(3, 12), func(j int) any { return d("t", g.text(18), "kl", at(j)) }))
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) {
					s.one("hytter", d("_id", int32(s.IntN(600))), d("navn", 1, "notater", d("$slice", -3)))
				}},
				{5, func(s *session, i int) {
					note := a{d("t", s.text(18), "kl", at(800+i))}
					s.update("hytter", d("_id", int32(s.IntN(600))), d("$push", d("notater", d("$each", note, "$slice", -12))))
				}},
			},
		},
		{
			name: "propostes", service: "dance", harm: "subset", fine: "relation",
			why: "songs change their rank with each of many votes, so an indexed query is cheaper, as the manual of subset says",
			colls: []coll{{name: "propostes", n: 120, doc: func(g gen, i int) bson.D {
				return d("_id", meteor('p', i), "festa", g.text(15), "cançons",
					list(g.between(60, 160), func(j int) any { return d("n", j, "títol", g.text(30), "vots", g.IntN(90)) }))
			}}},
			traffic: []requests{
				{70, func(s *session, _ int) {
					s.one("propostes", d("_id", meteor('p', s.IntN(120))), d("cançons", d("$slice",
						10)))
				}},
				{140, func(s *session, _ int) {
					s.update("propostes", d("_id", meteor('p', s.IntN(120)), "cançons.n", s.IntN(60)), d("$inc", d("cançons.$.vots", 1)))
				}},
				{40, func(s *session, _ int) {
					s.update("propostes", d("_id", meteor('p', s.IntN(120))), d("$push", d("cançons", d("$each", a{},
						"$sort", d("vots", -1)))))
				}},
			},
		},
		{
			name: "conversas", service: "hotel", harm: "subset", fine: "relation|bucket",
			why: "a message is written as often as the last ten are read, and an Insert of subset is a transaction of two writes",
			colls: []coll{{name: "conversas", n: 200, doc: func(g gen, i int) bson.D {
				return d("_id", oid(7, i), "hóspede", g.name(),
					"mensagens", list(g.between(60, 140), func(int) any {
						return d("de", g.of("hóspede", "recepção"),
							"texto", g.text(60))
					}))
			}}},
			traffic: []requests{
				{90, func(s *session, _ int) {
					s.one("conversas", d("_id", oid(7, s.IntN(200))), d("mensagens", d("$slice", -10)))
				}},
				{100, func(s *session, _ int) {
					s.update("conversas", d("_id", oid(7, s.IntN(200))), d("$push", d("mensagens", d("de",
						"hóspede", "texto", s.text(60)))))
				}},
			},
		},
		{
			name: "aircraft", service: "airport", pays: "split",
			why: "lists of aircraft read the registration, the type and the state of documents that are nearly all handbook",
			colls: []coll{{name: "aircraft", n: 500, indexes: []string{"operator"}, doc: func(g gen, i int) bson.D {
				return d("_id", uuid(3, i), "registration", key("F", i), "operator", i%25, "type", g.of("A320", "B738", "E190"),
					"state", g.of("flying", "parked"), "handbook", g.text(14_000))
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) {
					s.find("aircraft", d("operator", s.IntN(25)), by{fields: keep("registration", "type", "state")})
				}},
				{10, func(s *session, _ int) { s.one("aircraft", d("_id", uuid(3, s.IntN(500))), nil) }},
			},
		},
		{
			name: "tájékoztatók", service: "pharmacy", pays: "split",
			why: "the search reads name and form, and the text of the leaflet, nearly all of the bytes, only the page of one reads",
			colls: []coll{{name: "tájékoztatók", n: 450, indexes: []string{"hatóanyag"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(8, i), "név", g.text(16), "hatóanyag", i%30, "forma", g.of("tabletta", "csepp"), "szöveg",
					d("adagolás", g.text(7000), "mellékhatás", g.text(8000)), "__v", 0)
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) {
					s.find("tájékoztatók", d("hatóanyag", s.IntN(30)), by{sort: d("név", 1), fields: keep("név", "forma")})
				}},
				{12, func(s *session, _ int) { s.one("tájékoztatók", d("_id", oid(8, s.IntN(450))), nil) }},
			},
		},
		{
			name: "dokumentuak", service: "translation", pays: "split",
			why: "the board of a project shows title, state and words of documents of 18 kB, which only the editor opens",
			colls: []coll{{name: "dokumentuak", n: 400, indexes: []string{"proiektua"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(9, i), "proiektua", i%20, "izenburua", g.text(24), "egoera", g.of("zain", "eginda"),
					"hitzak", g.between(300, 3000), "jatorrizkoa", g.text(9000), "itzulpena", g.text(9000))
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) {
					s.prisma("dokumentuak", d("proiektua", s.IntN(20)), d("izenburua", 1), 0, 50, keep("izenburua", "egoera", "hitzak"))
				}},
				{14, func(s *session, _ int) {
					s.prisma("dokumentuak", d("_id", oid(9, s.IntN(400))), d("_id", 1), 0, 1,
						keep("izenburua", "egoera", "hitzak", "jatorrizkoa", "itzulpena"))
				}},
			},
		},
		{
			name: "bordrolar", service: "payroll", pays: "split",
			why: "the year of an employee lists month and net pay of payslips that hold a PDF of 15 kB, which is rarely fetched",
			colls: []coll{{name: "bordrolar", n: 480, indexes: []string{"personel"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(10, i), "personel", i/12, "ay", i%12+1, "net", g.between(20_000, 90_000), "belge", g.blob(15_000))
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) {
					s.find("bordrolar", d("personel", s.IntN(40)), by{sort: d("ay", 1), fields: omit("belge")})
				}},
				{10, func(s *session, _ int) { s.one("bordrolar", d("_id", oid(10, s.IntN(480))), nil) }},
			},
		},
		{
			name: "tài_xế", service: "taxi", pays: "split",
			why: "dispatch reads the name, plate and seats of drivers, but a photo and the scan of a licence take most of the bytes",
			colls: []coll{{name: "tài_xế", n: 500, indexes: []string{"quận"}, doc: func(g gen, i int) bson.D {
				return d("_id", snow(2, i), "tên", g.name(), "quận", i%24, "biển_số", key("51H", i), "chỗ", g.between(4, 7),
					"ảnh", g.blob(9000), "bằng_lái", d("số", i, "bản_quét", g.blob(6000)))
			}}},
			traffic: []requests{
				{160, func(s *session, _ int) {
					s.find("tài_xế", d("quận", s.IntN(24)), by{fields: keep("tên", "biển_số", "chỗ"), limit: 30})
				}},
				{10, func(s *session, _ int) { s.one("tài_xế", d("_id", snow(2, s.IntN(500))), nil) }},
			},
		},
		{
			name: "vídeos", service: "dance", pays: "split",
			why: "the gallery shows title and length of videos whose transcript and notation, 16 kB, are on their own page",
			colls: []coll{{name: "vídeos", n: 400, indexes: []string{"escola"}, doc: func(g gen, i int) bson.D {
				return d("_id", meteor('v', i), "escola", i%16, "títol", g.text(25), "segons", g.between(30, 900),
					"transcripció", g.text(8000), "notació", list(200, func(j int) any { return d("temps", j, "pas", g.text(20)) }))
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) {
					s.find("vídeos", d("escola", s.IntN(16)), by{sort: d("títol", 1), fields: keep("títol", "segons"), limit: 25})
				}},
				{10, func(s *session, _ int) { s.one("vídeos", d("_id", meteor('v', s.IntN(400))), nil) }},
			},
		},
		{
			name: "receptury", service: "brewery", harm: "split",
			why: "a recipe of 12 kB is always read whole by the brew house, so that two documents would cost each read twice",
			colls: []coll{{name: "receptury", n: 300, doc: func(g gen, i int) bson.D {
				return d("_id", int32(i), "jmeno", g.text(14), "verze", g.between(1, 30), "kroky", g.text(12_000))
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) { s.one("receptury", d("_id", int32(s.IntN(300))), nil) }},
			},
		},
		{
			name: "회원", service: "gym",
			why: "lists read three fields of documents of some five hundred bytes, for which a projection is enough",
			colls: []coll{{name: "회원", n: 1500, indexes: []string{"지점"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(11, i), "이름", g.name(), "지점", i%60, "등급", g.of("금", "은"), "주소", g.text(90), "메모", g.text(220))
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) {
					s.find("회원", d("지점", s.IntN(60)), by{fields: keep("이름", "등급")})
				}},
				{20, func(s *session, _ int) { s.one("회원", d("_id", oid(11, s.IntN(1500))), nil) }},
			},
		},
		{
			name: "incidents", service: "airport", harm: "split",
			why: "three of four reads want the whole report of 10 kB, and each would then need both documents",
			colls: []coll{{name: "incidents", n: 400, indexes: []string{"runway"}, doc: func(g gen, i int) bson.D {
				return d("_id", uuid(4, i), "runway", g.of("08L", "26R"), "severity", g.between(1, 5), "report", g.text(10_000))
			}}},
			traffic: []requests{
				{40, func(s *session, _ int) {
					s.find("incidents", d("severity", s.between(1, 5)), by{fields: keep("runway", "severity"), limit: 3})
				}},
				{130, func(s *session, _ int) { s.one("incidents", d("_id", uuid(4, s.IntN(400))), nil) }},
			},
		},
		{
			name: "sözleşmeler", service: "payroll", harm: "split",
			why: "the projection keeps the long text and leaves the small fields out, so what would be cold is what is read",
			colls: []coll{{name: "sözleşmeler", n: 300, doc: func(g gen, i int) bson.D {
				return d("_id", oid(12, i), "personel", i, "imza", at(i), "tür", g.of("tam", "yarım"), "metin", g.text(11_000))
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) { s.one("sözleşmeler", d("_id", oid(12, s.IntN(300))), keep("metin")) }},
				{6, func(s *session, _ int) { s.one("sözleşmeler", d("_id", oid(12, s.IntN(300))), keep("tür", "imza")) }},
			},
		},
		{
			name: "эфемериды", service: "satellite",
			why: "an orbit is one document of always 300 numbers, which a job replaces whole and a tracker reads whole",
			colls: []coll{{name: "эфемериды", n: 300, doc: func(g gen, i int) bson.D {
				return d("_id", i+25_000, "эпоха", at(i), "точки", list(300, func(j int) any { return math.Sin(float64(i + j)) }))
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) { s.one("эфемериды", d("_id", s.IntN(300)+25_000), nil) }},
				{40, func(s *session, i int) {
					s.save("эфемериды", d("_id", s.IntN(300)+25_000, "эпоха", at(900+i), "точки",
						list(300, func(j int) any { return math.Cos(float64(i + j)) })))
				}},
			},
		},
	}
}
