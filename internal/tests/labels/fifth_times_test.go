package labels_test

import "go.mongodb.org/mongo-driver/v2/bson"

// Measurements and events: series, bucket.
func fifthTimeCases() []labelled {
	return []labelled{
		{
			name: "dome", service: "observatory", pays: "series", fine: "bucket",
			why: "three numbers a minute of each dome come in batches of 60, are read by range for plots, and never change",
			colls: []coll{{name: "dome", n: 6000, indexes: []string{"dome,at"}, doc: func(g gen, i int) bson.D {
				return d("_id", snow(8, i), "dome", key("D", i%5), "at", minute(i/5), "temp", float64(g.between(-50, 200))/10,
					"humidity", g.between(10, 95), "wind", g.money())
			}}},
			traffic: []requests{
				{30, func(s *session, i int) {
					s.insert("dome", batch(60, func(j int) bson.D {
						return d("_id", snow(8, 10_000+i*60+j), "dome", key("D", i%5), "at", minute(1200+i/5*60+j), "temp", 11.5,
							"humidity", s.between(10, 95), "wind", s.money())
					})...)
				}},
				{150, func(s *session, _ int) {
					from := s.IntN(1000)
					s.window("dome", "dome", key("D", s.IntN(5)), "at", minute(from), minute(from+180))
				}},
			},
		},
		{
			name: "sušilnica", service: "sawmill", pays: "series", fine: "bucket",
			why: "a kiln sends fifty values at once, and the screens plot hours or average them, while nobody asks for one value",
			colls: []coll{{name: "sušilnica", n: 6000, indexes: []string{"komora,čas"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(70, i), "komora", int32(i%6), "čas", minute(i/6), "stopinj", float64(g.between(300, 800))/10,
					"vlaga", g.between(5, 60))
			}}},
			traffic: []requests{
				{30, func(s *session, i int) {
					s.insert("sušilnica", batch(50, func(j int) bson.D {
						return d("_id", oid(71, i*50+j), "komora", int32(i%6), "čas", minute(1000+i/6*50+j), "stopinj", 55.5, "vlaga",
							s.between(5, 60))
					})...)
				}},
				{100, func(s *session, _ int) {
					from := s.IntN(800)
					s.window("sušilnica", "komora", int32(s.IntN(6)), "čas", minute(from), minute(from+120))
				}},
				{50, func(s *session, _ int) {
					from := s.IntN(800)
					s.aggregate("sušilnica", match("komora", int32(s.IntN(6)), "čas", d("$gte", minute(from), "$lt", minute(from+180))),
						group("_id", nil, "stopinj", d("$avg", "$stopinj"), "vlaga", d("$max", "$vlaga")))
				}},
			},
		},
		{
			name: "batterier", service: "bikeshare", pays: "series", fine: "bucket",
			why: "at the dock a bike hands over its forty values of volt and charge, which only curves of one bike read",
			colls: []coll{{name: "batterier", n: 6000, indexes: []string{"cykel,tid"}, doc: func(g gen, i int) bson.D {
				return d("_id", uuid(70, i), "cykel", int32(i%6), "tid", minute(i/6), "volt", float64(g.between(300, 420))/10, "pct",
					g.IntN(100))
			}}},
			traffic: []requests{
				{30, func(s *session, i int) {
					s.insert("batterier", batch(40, func(j int) bson.D {
						return d("_id", uuid(71, i*40+j), "cykel", int32(i%6), "tid", minute(1000+i/6*40+j), "volt", 36.5, "pct", s.IntN(100))
					})...)
				}},
				{160, func(s *session, _ int) {
					from := s.IntN(850)
					s.window("batterier", "cykel", int32(s.IntN(6)), "tid", minute(from), minute(from+120))
				}},
			},
		},
		{
			name: "loftgæði", service: "kindergarten", pays: "series", fine: "bucket",
			why: "sensors of the rooms deliver thirty values of air at a time, which are read as days of one room",
			colls: []coll{{name: "loftgæði", n: 6000, indexes: []string{"stofa,tími"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(72, i), "stofa", key("s", i%4), "tími", minute(i/4*2), "co2", g.between(400, 2000), "hiti",
					float64(g.between(180, 260))/10)
			}}},
			traffic: []requests{
				{40, func(s *session, i int) {
					s.insert("loftgæði", batch(30, func(j int) bson.D {
						return d("stofa", key("s", i%4), "tími", minute(3000+i/4*60+j*2), "co2", s.between(400, 2000), "hiti", 21.5)
					})...)
				}},
				{150, func(s *session, _ int) {
					from := s.IntN(2000)
					s.window("loftgæði", "stofa", key("s", s.IntN(4)), "tími", minute(from), minute(from+600))
				}},
			},
		},
		{
			name: "evals", service: "chess", pays: "series", fine: "bucket",
			why: "an engine appends its fifty evaluations of a minute at once, and a graph reads a stretch of one game",
			colls: []coll{{name: "evals", n: 6000, indexes: []string{"game,at"}, doc: func(g gen, i int) bson.D {
				return d("_id", ulid("V", i), "game", int64(i/1000), "at", minute(i%1000), "cp", g.between(-300, 300), "depth",
					g.between(10, 40), "nodes", int64(g.IntN(90_000_000)))
			}}},
			traffic: []requests{
				{24, func(s *session, i int) {
					s.insert("evals", batch(50, func(j int) bson.D {
						return d("_id", ulid("V", 9000+i*50+j), "game", int64(i%6), "at", minute(1000+i/6*50+j), "cp", s.between(-300, 300),
							"depth", 20, "nodes", int64(4711))
					})...)
				}},
				{150, func(s *session, _ int) {
					from := s.IntN(800)
					s.window("evals", "game", int64(s.IntN(6)), "at", minute(from), minute(from+200))
				}},
			},
		},
		{
			name: "pesées", service: "circus", pays: "bucket",
			why: "weights of animals are read by range, and the vet looks up single ones by their number and corrects them",
			colls: []coll{{name: "pesées", n: 5000, indexes: []string{"animal,heure"}, doc: func(g gen, i int) bson.D {
				return d("_id", int32(i), "animal", key("an", i%10), "heure", minute(i/10*10), "kg", g.money(), "par",
					g.of("Léa", "Max"))
			}}},
			traffic: []requests{
				{25, func(s *session, i int) {
					s.insert("pesées", batch(24, func(j int) bson.D {
						return d("_id", int32(9000+i*24+j), "animal", key("an", i%10), "heure", minute(5000+i/10*240+j*10), "kg", s.money(),
							"par", "Léa")
					})...)
				}},
				{140, func(s *session, _ int) {
					from := s.IntN(4000)
					s.window("pesées", "animal", key("an", s.IntN(10)), "heure", minute(from), minute(from+900))
				}},
				{40, func(s *session, _ int) {
					s.update("pesées", d("_id", int32(s.IntN(5000))), d("$set", d("kg", s.money(), "par", "vét")))
				}},
			},
		},
		{
			name: "svefn", service: "kindergarten", pays: "bucket",
			why: "tablets send their events again after a lost answer, so each has its own ID, and days of a child are read by range",
			colls: []coll{{name: "svefn", n: 5000, indexes: []string{"tæki,nr", "barn,tími"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(73, i), "tæki", i%3, "nr", i/3, "barn", oid(14, i%20), "tími", minute(i/20*15), "hvað",
					g.of("sefur", "vaknar", "borðar"))
			}}},
			traffic: []requests{
				{60, func(s *session, i int) {
					device, nr := i%3, 1600+s.IntN(300)
					s.upsert("svefn", d("tæki", device, "nr", nr),
						d("$setOnInsert", d("barn", oid(14, nr%20), "tími", minute(4000+nr), "hvað", "sefur")))
				}},
				{160, func(s *session, _ int) {
					from := s.IntN(3000)
					s.window("svefn", "barn", oid(14, s.IntN(20)), "tími", minute(from), minute(from+720))
				}},
			},
		},
		{
			name: "activity", service: "jobs", pays: "bucket|series", fine: "relation|subset|outlier",
			why: "every account collects its clicks in one array by time, without an end, and a report takes a range out of it",
			colls: []coll{{name: "activity", n: 100, doc: func(g gen, i int) bson.D {
				return d("_id", uuid(72, i), "clicks", list(g.between(300, 500), func(j int) any {
					return d("at", at(j*11), "page", g.text(10), "ms", g.between(5, 900))
				}))
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) {
					from := s.IntN(3000)
					in := d("$and", a{d("$gte", a{"$$c.at", at(from)}), d("$lt", a{"$$c.at", at(from + 168)})})
					s.aggregate("activity", match("_id", uuid(72, s.IntN(100))),
						project("clicks", d("$filter", d("input", "$clicks", "as", "c", "cond", in))))
				}},
				{90, func(s *session, i int) {
					s.update("activity", d("_id", uuid(72, s.IntN(100))),
						d("$push", d("clicks", d("at", at(6000+i), "page", s.text(10), "ms", 40))))
				}},
			},
		},
		{
			name: "zegels", service: "customs", pays: "bucket",
			why: "seals report in batches, a journey reads its range, and officers find events by state and settle single ones",
			colls: []coll{{name: "zegels", n: 5000, indexes: []string{"zegel,tijd", "open"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(74, i), "zegel", 4000+i%10, "tijd", minute(i/10*3), "gebeurtenis", g.of("dicht", "open", "schok"),
					"open", i%50 == 0)
			}}},
			traffic: []requests{
				{20, func(s *session, i int) {
					s.insert("zegels", batch(20, func(j int) bson.D {
						return d("_id", oid(75, i*20+j), "zegel", 4000+i%10, "tijd", minute(1500+i/10*60+j*3), "gebeurtenis", "dicht",
							"open", false)
					})...)
				}},
				{130, func(s *session, _ int) {
					from := s.IntN(1200)
					s.window("zegels", "zegel", 4000+s.IntN(10), "tijd", minute(from), minute(from+240))
				}},
				{15, func(s *session, _ int) { s.find("zegels", d("open", true), by{limit: 20}) }},
				{40, func(s *session, _ int) {
					s.update("zegels", d("_id", oid(74, s.IntN(5000))), d("$set", d("open", false)))
				}},
			},
		},
		{
			name: "vânzări", service: "lottery", pays: "bucket",
			why: "sales of a terminal come in batches and are summed by range, but a cancelled ticket is deleted by its number",
			colls: []coll{{name: "vânzări", n: 6000, indexes: []string{"terminal,ora"}, doc: func(g gen, i int) bson.D {
				return d("_id", int64(i), "terminal", int32(i%10), "ora", minute(i/10), "bani", g.between(2, 60), "joc",
					g.of("6/49", "5/40"))
			}}},
			traffic: []requests{
				{25, func(s *session, i int) {
					s.insert("vânzări", batch(20, func(j int) bson.D {
						return d("_id", int64(9000+i*20+j), "terminal", int32(i%10), "ora", minute(600+i/10*20+j), "bani", s.between(2, 60),
							"joc", "6/49")
					})...)
				}},
				{140, func(s *session, _ int) {
					from := s.IntN(500)
					s.aggregate("vânzări", match("terminal", int32(s.IntN(10)), "ora", d("$gte", minute(from), "$lt", minute(from+60))),
						group("_id", nil, "bani", d("$sum", "$bani"), "n", d("$sum", 1)))
				}},
				{40, func(s *session, _ int) { s.remove("vânzări", d("_id", int64(s.IntN(6000)))) }},
			},
		},
		{
			name: "listens", service: "podcast", pays: "bucket",
			why: "apps send beats of a listener with an ID in batches of twenty, ranges are read, and single ones are marked as robots",
			colls: []coll{{name: "listens", n: 6000, indexes: []string{"listener,at"}, doc: func(g gen, i int) bson.D {
				return d("_id", uuid(73, i), "listener", int64(i%12), "at", minute(i/12), "second", g.IntN(4000), "robot", false)
			}}},
			traffic: []requests{
				{25, func(s *session, i int) {
					s.insert("listens", batch(20, func(j int) bson.D {
						return d("_id", uuid(74, i*20+j), "listener", int64(i%12), "at", minute(500+i/12*20+j), "second", s.IntN(4000),
							"robot", false)
					})...)
				}},
				{150, func(s *session, _ int) {
					from := s.IntN(400)
					s.window("listens", "listener", int64(s.IntN(12)), "at", minute(from), minute(from+90))
				}},
				{30, func(s *session, _ int) {
					s.update("listens", d("_id", uuid(73, s.IntN(6000))), d("$set", d("robot", true)))
				}},
			},
		},
		{
			name: "passages", service: "circus", harm: "series",
			why: "a passage at the gate is looked up by its ticket's number, one by one, and hardly ever by range",
			colls: []coll{{name: "passages", n: 5000, indexes: []string{"porte,heure", "billet"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(76, i), "porte", i%6, "heure", minute(i/6), "billet", key("T", i))
			}}},
			traffic: []requests{
				{200, func(s *session, _ int) { s.one("passages", d("billet", key("T", s.IntN(5000))), nil) }},
				{3, func(s *session, _ int) {
					from := s.IntN(700)
					s.window("passages", "porte", s.IntN(6), "heure", minute(from), minute(from+30))
				}},
			},
		},
		{
			name: "positions", service: "bikeshare", fine: "series",
			why: "four hundred bikes send one position each in turn, and each append to a bucket costs as much as five to ten inserts",
			colls: []coll{{name: "positions", n: 6000, indexes: []string{"cykel,tid"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(77, i), "cykel", int32(i%400), "tid", minute(i/400), "x", g.Float64(), "y", g.Float64())
			}}},
			traffic: []requests{
				{900, func(s *session, i int) {
					s.insert("positions", d("_id", oid(78, i), "cykel", int32(i%400), "tid", minute(20+i/400), "x", s.Float64(), "y",
						s.Float64()))
				}},
				{20, func(s *session, _ int) {
					s.window("positions", "cykel", int32(s.IntN(400)), "tid", minute(0), minute(15))
				}},
			},
		},
		{
			name: "minuti", service: "observatory", fine: "bucket",
			why: "the value of each minute is set again and again in the document of its day, which already is the pattern of slots",
			colls: []coll{{name: "minuti", n: 60, indexes: []string{"station,day"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(79, i), "station", key("st", i%4), "day", at(i/4*24), "data",
					d("0", d("0", d("t", g.IntN(30)), "1", d("t", g.IntN(30))), "1", d("0", d("t", g.IntN(30)))))
			}}},
			traffic: []requests{
				{150, func(s *session, i int) {
					s.update("minuti", d("station", key("st", i%4), "day", at(14*24)), d("$set",
						d("data.2."+s.of("0", "1", "2", "3"), d("t", s.IntN(30)))))
				}},
				{60, func(s *session, _ int) {
					s.one("minuti", d("station", key("st", s.IntN(4)), "day", at(s.IntN(15)*24)), nil)
				}},
			},
		},
		{
			name: "revisiones", service: "dentist",
			why: "a machine is inspected once a year, four documents each, so no window would hold ten of them",
			colls: []coll{{name: "revisiones", n: 2000, indexes: []string{"máquina,fecha"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(80, i), "máquina", key("mq", i%500), "fecha", at(i/500*8760), "apta", g.IntN(9) > 0, "nota",
					g.text(40))
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) {
					s.window("revisiones", "máquina", key("mq", s.IntN(500)), "fecha", at(0), at(20_000))
				}},
				{20, func(s *session, i int) {
					s.insert("revisiones", d("_id", oid(81, i), "máquina", key("mq", i), "fecha", at(4*8760), "apta", true, "nota",
						s.text(40)))
				}},
			},
		},
		{
			name: "cours", service: "circus", harm: "series",
			why: "lessons have times to come, are moved and cancelled all day, and a packed block would be rewritten each time",
			colls: []coll{{name: "cours", n: 2400, indexes: []string{"piste,début"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(82, i), "piste", i%6, "début", at(20_000+i/6), "maître", g.name(), "élèves", g.between(1, 12))
			}}},
			fine: "bucket",
			traffic: []requests{
				{90, func(s *session, _ int) {
					from := 20_000 + s.IntN(300)
					s.window("cours", "piste", s.IntN(6), "début", at(from), at(from+24))
				}},
				{130, func(s *session, _ int) {
					s.update("cours", d("_id", oid(82, s.IntN(2400))), d("$set", d("début", at(20_000+s.IntN(400)), "élèves",
						s.between(1, 12))))
				}},
				{40, func(s *session, _ int) { s.remove("cours", d("_id", oid(82, s.IntN(2400)))) }},
			},
		},
	}
}
