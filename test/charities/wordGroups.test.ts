import test from "ava";
import type { NameSet, WordCount, WordGroups } from "../../domain/charities/wordGroups.ts";
import { chooseLookups, splitGroups, splitParts } from "../../domain/charities/wordGroups.ts";

const countsOf = (frequencies: Readonly<Record<string, number>>): readonly WordCount[] =>
  Object.entries(frequencies).map(([word, charities]) => ({ word, charities }));

const LISTS = [
  countsOf({ school: 40_000, schools: 3000, preschool: 1500 }),
  countsOf({ island: 50_000, islands: 5000 }),
  countsOf({ rhode: 46_000, rhodes: 300 }),
];

const hasAll = (name: ReadonlySet<string>, groups: WordGroups): boolean =>
  groups.every((words) => words.some((word) => name.has(word)));

const isIn = (name: ReadonlySet<string>, { groups, except }: NameSet): boolean =>
  hasAll(name, groups) && !except.some((excepted) => hasAll(name, excepted));

/** Returns all names that consist of some of the words. */
const namesOf = (words: readonly string[]): readonly ReadonlySet<string>[] =>
  Array.from(
    { length: 2 ** words.length },
    (_, bits) => new Set(words.filter((_word, index) => (bits >> index) % 2 === 1)),
  );

const WORDS = LISTS.flat().map(({ word }) => word);
const GROUPS = LISTS.map((list) => list.map(({ word }) => word));

test("each name that has a word of each group is in exactly one set, and no other name is in any", (t) => {
  const whole = [LISTS[0]?.[1], LISTS[1]?.[0], LISTS[2]?.[1]].flatMap((count) => count ?? []);
  for (const preferred of [null, whole]) {
    const { sets, isComplete } = splitGroups(LISTS, preferred, Infinity);
    t.true(isComplete);
    for (const name of namesOf(WORDS)) {
      t.is(sets.filter((set) => isIn(name, set)).length, hasAll(name, GROUPS) ? 1 : 0);
    }
  }
});

test("sets that cost too much are left out, and the rest is not complete", (t) => {
  const { sets, isComplete } = splitGroups(LISTS, null, 1);
  t.false(isComplete);
  t.deepEqual(sets, [{ groups: [["school"], ["island"], ["rhode"]], except: [] }]);
});

test("of a part that few charities have, all words are one set", (t) => {
  const quokka = {
    whole: null,
    common: countsOf({ quokka: 12 }),
    rare: countsOf({ quokkas: 1 }),
    isComplete: true,
  };
  const foundation = { ...quokka, common: countsOf({ foundation: 200_000 }), rare: [] };
  t.deepEqual(splitParts([foundation, quokka], 1), {
    sets: [{ groups: [["quokka", "quokkas"]], except: [] }],
    isComplete: true,
  });
});

test("a part that no word has finds nothing", (t) => {
  const nothing = { whole: null, common: [], rare: [], isComplete: true };
  t.deepEqual(splitParts([nothing], 1), { sets: [], isComplete: true });
});

test("the rarest words are looked up until few names are left", (t) => {
  const lists = ["of", "academy", "national", "memorial"].map((word, index) =>
    countsOf({ [word]: [400_000, 8000, 67_000, 4000][index] ?? 0 }),
  );
  const chosen = chooseLookups(
    lists,
    (list) => list,
    () => false,
  );
  t.deepEqual(
    chosen.flat().map(({ word }) => word),
    ["memorial", "academy"],
  );
});
