package labels_test

import (
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Sums and counters: computed, approx.
func fourthNumberCases() []labelled {
	group := func(fields ...any) bson.D { return d("$group", d(fields...)) }
	return []labelled{
		{
			name: "opiniões", service: "hotel", pays: "computed", fine: "subset",
			why: "the header of each inn computes mean and number of a hundred opinions for each reader, and an opinion is rare",
			colls: []coll{
				{name: "opiniões", n: 3000, indexes: []string{"pousada"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(70, i), "pousada", int64(i%30), "nota", g.between(1, 10), "texto", g.text(60))
				}},
				{name: "pousadas", n: 30, doc: func(g gen, i int) bson.D {
					return d("_id", int64(i), "nome", g.text(14),
						"cidade", g.city())
				}},
			},
			traffic: []requests{
				{220, func(s *session, _ int) {
					s.aggregate("opiniões", match("pousada", int64(s.IntN(30))),
						group("_id", "$pousada", "média", d("$avg", "$nota"), "n", d("$sum", 1)))
				}},
				{4, func(s *session, i int) {
					s.insert("opiniões", d("_id", oid(70, 9000+i), "pousada", int64(i), "nota", 8, "texto", s.text(60)))
				}},
			},
		},
		{
			name: "kontribuoj", service: "wiki", pays: "computed",
			why: "each page about an author counts a hundred of their edits again, and an edit comes once for forty views",
			colls: []coll{
				{name: "kontribuoj", n: 4000, indexes: []string{"aŭtoro"}, doc: func(g gen, i int) bson.D {
					return d("_id", snow(20, i), "aŭtoro", meteor('u', i%40), "paĝo", key("paĝo", g.IntN(1000)),
						"bajtoj", g.between(1, 900))
				}},
				{name: "aŭtoroj", n: 40, doc: func(g gen, i int) bson.D { return d("_id", meteor('u', i), "nomo", g.name()) }},
			},
			traffic: []requests{
				{200, func(s *session, _ int) {
					author := meteor('u', s.IntN(40))
					s.one("aŭtoroj", d("_id", author), nil)
					s.count("kontribuoj", d("aŭtoro", author))
				}},
				{5, func(s *session, i int) {
					s.insert("kontribuoj", d("_id", snow(20, 9000+i), "aŭtoro", meteor('u', i), "paĝo", key("paĝo", i), "bajtoj", 10))
				}},
			},
		},
		{
			name: "odběry", service: "brewery", pays: "computed",
			why: "the board sums a beer's litres over two hundred deliveries at each look, and there are thirty looks a delivery",
			colls: []coll{
				{name: "odběry", n: 4000, indexes: []string{"pivo"}, doc: func(g gen, i int) bson.D {
					return d("_id", int32(i), "pivo", int32(i%20), "litru", g.between(30, 900), "odberatel", g.name())
				}},
				{name: "sorty", n: 20, doc: func(g gen, i int) bson.D { return d("_id", int32(i), "nazev", g.text(12)) }},
			},
			traffic: []requests{
				{180, func(s *session, _ int) {
					s.aggregate("odběry", match("pivo", int32(s.IntN(20))), group("_id", nil, "total", d("$sum", "$litru")))
				}},
				{6, func(s *session, i int) {
					s.insert("odběry", d("_id", int32(9000+i), "pivo", int32(i), "litru", 50, "odberatel", s.name()))
				}},
			},
		},
		{
			name: "carriers", service: "airport", pays: "computed",
			why: "each list of carriers joins fifty flights of each one only to show how many there are and their delay together",
			colls: []coll{
				{name: "carriers", n: 40, indexes: []string{"alliance"}, doc: func(g gen, i int) bson.D {
					return d("_id", key("C", i), "name", g.text(14), "alliance", i%4)
				}},
				{name: "flights", n: 2000, indexes: []string{"carrier"}, doc: func(g gen, i int) bson.D {
					return d("_id", uuid(70, i), "carrier", key("C", i%40), "delay", g.near(90), "gate", g.text(3), "off", minute(i))
				}},
			},
			traffic: []requests{
				{150, func(s *session, _ int) {
					s.aggregate("carriers", match("alliance", s.IntN(4)), join("flights", "_id", "carrier", "f"),
						d("$project", d("name", 1, "flights", d("$size", "$f"), "delay", d("$sum", "$f.delay"))))
				}},
				{5, func(s *session, _ int) {
					s.update("flights", d("_id", uuid(70, s.IntN(2000))), d("$set", d("delay", 35)))
				}},
			},
		},
		{
			name: "nedfarter", service: "ski", pays: "computed",
			why: "the front page groups all descents by resort for each visitor, and the numbers hardly change between two visits",
			colls: []coll{
				{name: "nedfarter", n: 4000, doc: func(g gen, i int) bson.D {
					return d("_id", oid(71, i), "anlegg", g.of("Hemsedal", "Trysil", "Geilo", "Oppdal"),
						"høydemeter", g.between(80, 900), "kort", g.IntN(900))
				}},
				{name: "anlegg", n: 4, doc: func(_ gen, i int) bson.D {
					return d("_id", []string{"Hemsedal", "Trysil", "Geilo", "Oppdal"}[i], "heiser", 10+i)
				}},
			},
			traffic: []requests{
				{130, func(s *session, _ int) {
					s.aggregate("nedfarter", group("_id", "$anlegg", "turer", d("$sum", 1), "meter", d("$sum", "$høydemeter")))
				}},
				{4, func(s *session, i int) {
					s.insert("nedfarter", d("_id", oid(71, 9000+i), "anlegg", "Trysil", "høydemeter", 300, "kort", i))
				}},
			},
		},
		{
			name: "lanak", service: "translation", pays: "computed",
			why: "the card of a translator sums the words of all finished jobs, a fixed condition, at each look",
			colls: []coll{
				{name: "lanak", n: 3600, indexes: []string{"itzultzailea,egoera"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(72, i), "itzultzailea", i%30, "egoera", g.of("eginda", "eginda", "zain"),
						"hitzak", g.between(50, 4000))
				}},
				{name: "itzultzaileak", n: 30, doc: func(g gen, i int) bson.D { return d("_id", i, "izena", g.name()) }},
			},
			traffic: []requests{
				{190, func(s *session, _ int) {
					s.aggregate("lanak", match("itzultzailea", s.IntN(30), "egoera", "eginda"),
						group("_id", "$itzultzailea", "hitzak", d("$sum", "$hitzak")))
				}},
				{5, func(s *session, _ int) {
					s.update("lanak", d("_id", oid(72, s.IntN(3600))), d("$set", d("egoera", "eginda")))
				}},
			},
		},
		{
			name: "운동", service: "gym", pays: "computed",
			why: "the start page of a member adds up minutes and calories of a hundred workouts, forty times for each new workout",
			colls: []coll{
				{name: "운동", n: 4000, indexes: []string{"회원"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(73, i), "회원", i%40, "분", g.between(10, 120), "칼로리", g.between(50, 900), "종류", g.of("요가", "수영"))
				}},
				{name: "회원정보", n: 40, doc: func(g gen, i int) bson.D { return d("_id", i, "이름", g.name(), "키", g.between(150, 195)) }},
			},
			traffic: []requests{
				{200, func(s *session, _ int) {
					s.aggregate("운동", match("회원", s.IntN(40)),
						group("_id", nil, "분", d("$sum", "$분"), "칼로리", d("$sum", "$칼로리")))
				}},
				{5, func(s *session, i int) {
					s.insert("운동", d("_id", oid(73, 9000+i), "회원", i, "분", 30, "칼로리", 200, "종류", "요가"))
				}},
			},
		},
		{
			name: "điểm_xe", service: "taxi",
			why: "a point is written more than twice as often as the mean is read, so it is cheaper to aggregate at each read",
			colls: []coll{{name: "điểm_xe", n: 2000, indexes: []string{"xe"}, doc: func(g gen, i int) bson.D {
				return d("_id", snow(21, i), "xe", i%50, "điểm", g.between(1, 5))
			}}},
			traffic: []requests{
				{60, func(s *session, _ int) {
					s.aggregate("điểm_xe", match("xe", s.IntN(50)), group("_id", "$xe", "tb", d("$avg", "$điểm")))
				}},
				{150, func(s *session, i int) {
					s.insert("điểm_xe", d("_id", snow(21, 9000+i), "xe", s.IntN(50), "điểm", 4))
				}},
			},
		},
		{
			name: "наработка", service: "satellite",
			why: "a report of the month groups the hours twice, so that nobody waits for a stored sum",
			colls: []coll{{name: "наработка", n: 2000, indexes: []string{"аппарат"}, doc: func(g gen, i int) bson.D {
				return d("_id", snow(22, i), "аппарат", i%40, "часы", g.between(1, 20), "прибор", g.text(10))
			}}},
			traffic: []requests{
				{2, func(s *session, _ int) {
					s.aggregate("наработка", group("_id", "$аппарат", "часы", d("$sum", "$часы")))
				}},
				{120, func(s *session, _ int) { s.one("наработка", d("_id", snow(22, s.IntN(2000))), nil) }},
				{40, func(s *session, i int) {
					s.insert("наработка", d("_id", snow(22, 9000+i), "аппарат", i, "часы", 3, "прибор", s.text(10)))
				}},
			},
		},
		{
			name: "tételek", service: "pharmacy",
			why: "the sum of a basket is over its two or three lines, which the index finds as fast as a stored sum",
			colls: []coll{{name: "tételek", n: 3000, indexes: []string{"kosár"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(74, i), "kosár", i*2/5, "ft", g.between(200, 9000), "db", g.between(1, 3))
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) {
					s.aggregate("tételek", match("kosár", s.IntN(1200)), group("_id", "$kosár", "ft", d("$sum", "$ft")))
				}},
				{90, func(s *session, i int) {
					s.insert("tételek", d("_id", oid(74, 9000+i), "kosár", s.IntN(1200), "ft", 900, "db", 1))
				}},
			},
		},
		{
			name: "puntuacions", service: "dance",
			why: "the total of a couple is already stored with the couple, raised with each mark, and read by _id",
			colls: []coll{{name: "puntuacions", n: 400, doc: func(g gen, i int) bson.D {
				return d("_id", meteor('s', i), "parella", g.name(), "punts", g.IntN(300), "notes", g.IntN(40))
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) { s.one("puntuacions", d("_id", meteor('s', s.IntN(400))), nil) }},
				{40, func(s *session, _ int) {
					s.update("puntuacions", d("_id", meteor('s', s.IntN(400))), d("$inc", d("punts", s.between(1, 10), "notes", 1)))
				}},
			},
		},
		{
			name: "đếm_mở", service: "taxi", pays: "approx",
			why: "each opening of the app raises its city's counter, one of them 125 times a second, shown rounded to thousands",
			colls: []coll{{name: "đếm_mở", n: 20, doc: func(g gen, i int) bson.D {
				return d("_id", key("tp", i),
					"lần", g.between(0, 900_000))
			}}},
			traffic: []requests{
				{7500, func(s *session, _ int) { s.raise("đếm_mở", key("tp", 0), "lần", 1) }},
				{300, func(s *session, _ int) { s.raise("đếm_mở", key("tp", s.between(1, 19)), "lần", 1) }},
				{30, func(s *session, _ int) { s.one("đếm_mở", d("_id", key("tp", s.IntN(20))), nil) }},
			},
		},
		{
			name: "영상", service: "gym", pays: "approx",
			why: "views of the workout of the day raise one document 130 times a second, and nobody needs the last hundred",
			colls: []coll{{name: "영상", n: 300, doc: func(g gen, i int) bson.D {
				return d("_id", oid(75, i), "제목", g.text(20), "통계", d("조회", g.between(0, 90_000), "공유", g.IntN(500)))
			}}},
			traffic: []requests{
				{7800, func(s *session, _ int) { s.raise("영상", oid(75, 12), "통계.조회", 1) }},
				{200, func(s *session, _ int) { s.raise("영상", oid(75, s.IntN(300)), "통계.조회", 1) }},
				{60, func(s *session, _ int) { s.one("영상", d("_id", oid(75, s.IntN(300))), nil) }},
			},
		},
		{
			name: "sidevisninger", service: "ski", pays: "approx",
			why: "at the first snow the webcam's page is viewed 125 times a second, and each view is an upsert of one document",
			colls: []coll{{name: "sidevisninger", n: 80, doc: func(g gen, i int) bson.D {
				return d("_id", "/kamera/"+key("k", i), "visninger", g.between(0, 40_000), "sist", at(i))
			}}},
			traffic: []requests{
				{7500, func(s *session, _ int) {
					s.upsert("sidevisninger", d("_id", "/kamera/"+key("k", 3)), d("$inc", d("visninger", 1)))
				}},
				{30, func(s *session, _ int) { s.one("sidevisninger", d("_id", "/kamera/"+key("k", s.IntN(80))), nil) }},
			},
		},
		{
			name: "ankety", service: "brewery", pays: "approx",
			why: "a worker takes likes from a queue and raises one beer's counter a hundred times in a row, again and again",
			colls: []coll{{name: "ankety", n: 30, doc: func(g gen, i int) bson.D {
				return d("_id", int32(i), "otazka", g.text(30), "hlasu", g.between(0, 50_000))
			}}},
			traffic: []requests{
				{25, func(s *session, _ int) {
					for range 100 {
						s.raise("ankety", int32(4), "hlasu", 1)
					}
				}},
				{20, func(s *session, _ int) { s.one("ankety", d("_id", int32(s.IntN(30))), keep("hlasu")) }},
			},
		},
		{
			name: "khách_ngày", service: "taxi", pays: "approx",
			why: "a day keeps a set of its thousands of riders only to show how many there were, which Distinct holds in 10 kB",
			colls: []coll{{name: "khách_ngày", n: 30, doc: func(g gen, i int) bson.D {
				return d("_id", at(i*24), "khách", list(g.between(3000, 4000), func(j int) any { return snow(23, j*17+i) }))
			}}},
			traffic: []requests{
				{2000, func(s *session, i int) {
					s.upsert("khách_ngày", d("_id", at(29*24)), d("$addToSet", d("khách", snow(24, s.IntN(90_000)))))
				}},
				{60, func(s *session, _ int) {
					s.aggregate("khách_ngày", match("_id", at(s.IntN(30)*24)), d("$project", d("n", d("$size", "$khách"))))
				}},
			},
		},
		{
			name: "số_hóa_đơn", service: "taxi", harm: "approx",
			why: "each caller takes the next number of an invoice, which has to be exact and given once, however often it is raised",
			colls: []coll{{name: "số_hóa_đơn", n: 4, doc: func(_ gen, i int) bson.D {
				return d("_id", key("dãy", i),
					"số", i*1000)
			}}},
			traffic: []requests{
				{6500, func(s *session, _ int) { s.next("số_hóa_đơn", d("_id", key("dãy", 0)), d("$inc", d("số", 1))) }},
			},
		},
		{
			name: "kassa", service: "ski", harm: "approx",
			why: "the till adds amounts of money to one document, and the manual of approx rules out money",
			colls: []coll{{name: "kassa", n: 10, doc: func(_ gen, i int) bson.D {
				return d("_id", key("kasse", i),
					"øre", int64(i))
			}}},
			traffic: []requests{
				{6500, func(s *session, _ int) { s.raise("kassa", key("kasse", 1), "øre", s.between(50, 900)*100) }},
				{40, func(s *session, _ int) { s.one("kassa", d("_id", key("kasse", s.IntN(10))), nil) }},
			},
		},
		{
			name: "plasser", service: "ski", harm: "approx",
			why: "places are taken one by one under a condition that some are left, which needs the exact number",
			colls: []coll{{name: "plasser", n: 50, doc: func(_ gen, i int) bson.D {
				return d("_id", key("dag", i), "ledig", 100_000, "dato", at(i*24))
			}}},
			traffic: []requests{
				{6500, func(s *session, _ int) {
					s.update("plasser", d("_id", key("dag", 9), "ledig", d("$gte", 1)), d("$inc", d("ledig", -1)))
				}},
			},
		},
		{
			name: "댓글", service: "gym",
			why: "likes are raised five times a second over three hundred documents, so these writes are no load",
			colls: []coll{{name: "댓글", n: 300, doc: func(g gen, i int) bson.D {
				return d("_id", oid(76, i), "글", g.text(50),
					"좋아요", g.IntN(40))
			}}},
			traffic: []requests{
				{300, func(s *session, _ int) { s.raise("댓글", oid(76, s.IntN(300)), "좋아요", 1) }},
				{100, func(s *session, _ int) { s.one("댓글", d("_id", oid(76, s.IntN(300))), nil) }},
			},
		},
		{
			name: "사물함", service: "gym",
			why: "uses are raised a hundred times a second, but over three thousand lockers, each written twice a minute",
			colls: []coll{{name: "사물함", n: 3000, doc: func(g gen, i int) bson.D {
				return d("_id", i, "층", i/500,
					"사용", g.IntN(900))
			}}},
			traffic: []requests{
				{6300, func(s *session, _ int) { s.raise("사물함", s.IntN(3000), "사용", 1) }},
			},
		},
	}
}
