import { defineConfig } from "oxlint";
import type { OxlintOverride } from "oxlint";

/*
 * The linter, and with it the architecture of docs/architecture.md: which folder imports which, which module imports which,
 * and what each role of a file imports. Imports are relative, so patterns match the beginning of a path such as `../billing/`
 * or `../../db/`, and its end such as `refund.rules.ts`.
 */

/** In order: a module imports only modules before it. */
const MODULES = [
  "records",
  "accounts",
  "events",
  "billing",
  "planting",
  "registrations",
  "charities",
  "stores",
  "feed",
  "dashboard",
  "history",
  "support",
];

/** The folders that each folder imports besides itself. Folders that are not listed import everything. */
const FOLDERS: Readonly<Record<string, readonly string[]>> = {
  runtime: [],
  db: ["runtime"],
  modules: ["runtime", "db"],
  activities: ["runtime", "db", "modules"],
  workflows: ["runtime", "modules", "activities"],
  worker: ["runtime", "db", "modules", "activities", "workflows"],
  api: ["runtime", "db", "modules", "workflows"],
  cli: ["runtime", "db", "modules"],
  embedded: ["runtime", "db", "modules"],
};

type Pattern = {
  readonly regex?: string;
  readonly group?: string[];
  readonly message: string;
  readonly allowTypeImports?: boolean;
  readonly allowImportNamePattern?: string;
};

/** Packages, the folders that import them, and whether other folders import their types. */
const PACKAGES: readonly (Pick<Pattern, "allowTypeImports"> & {
  readonly regex: string;
  readonly folders: readonly string[];
})[] = [
  { regex: "^(koa|koa-bodyparser|koa-compose|@koa/.*)$", folders: ["api"] },
  { regex: "^commander$", folders: ["cli"] },
  { regex: "^(pg|@slonik/.*)$", folders: ["db", "embedded"] },
  // Queries use it; elsewhere it is imported for its types.
  { regex: "^slonik$", folders: ["db", "sql"], allowTypeImports: true },
  { regex: "^stripe$", folders: ["stripe"] },
  { regex: "^@temporalio/workflow$", folders: ["workflows"] },
  { regex: "^@temporalio/activity$", folders: ["activities"] },
  { regex: "^@temporalio/worker$", folders: ["worker"] },
  {
    regex: "^@temporalio/client$",
    folders: ["runtime", "worker", "api", "cli"],
    allowTypeImports: true,
  },
  // Replayed code does no I/O.
  { regex: "^node:", folders: Object.keys(FOLDERS).filter((folder) => folder !== "workflows") },
];

const NO_QUERIES: Pattern = {
  regex: "/db/sql\\.ts$",
  message: "queries are written in *.sql.ts and in db/",
};

const ONLY_READS: Pattern = {
  regex: "\\.sql\\.ts$",
  allowTypeImports: true,
  allowImportNamePattern: "^(count|find|has|list|read|sum)",
  message: "only types and functions that read are imported from *.sql.ts; a write is a use case",
};

const QUERIES_DECIDE_NOTHING: Pattern = {
  group: ["./**", "../**", "!**/*.rules.ts", "!**/*.sql.ts", "!**/db/**", "!**/runtime/**"],
  message: "queries import rules, other queries, db/ and runtime/",
};

const RULES_ARE_PURE: Pattern = {
  group: ["**", "!zod", "!**/*.rules.ts"],
  message: "rules import other rules and zod",
};

const ONLY_RULES: Pattern = {
  group: ["../modules/**", "../runtime/**", "!**/*.rules.ts"],
  allowTypeImports: true,
  message: "replayed code imports only rules and types",
};

const inFolders = (names: readonly string[], message: string): Pattern => ({
  regex: `^(\\.\\./)+(${names.join("|")})/`,
  message,
});

/** The imports that a folder must not have. `users` are those names in PACKAGES that its files go by. */
const wallsOf = (folder: string, users: readonly string[] = [folder]): readonly Pattern[] => {
  const allowed = [folder, ...(FOLDERS[folder] ?? [])];
  const others = [...Object.keys(FOLDERS), "bench", "test"].filter(
    (name) => !allowed.includes(name),
  );
  return [
    inFolders(others, `${folder}/ imports only ${allowed.join(", ")}`),
    ...PACKAGES.filter(({ folders }) => !users.some((user) => folders.includes(user))).map(
      ({ regex, folders: importers, allowTypeImports = false }) => ({
        regex,
        allowTypeImports,
        message: `only ${importers.join(", ")} import it`,
      }),
    ),
  ];
};

const restrict = (files: string, patterns: readonly Pattern[]): OxlintOverride => ({
  files: [files],
  rules: { "no-restricted-imports": ["error", { patterns: [...patterns] }] },
});

/** Of the patterns for a file, the last one holds. */
const restrictModule = (module: string): readonly OxlintOverride[] => {
  const later = MODULES.slice(MODULES.indexOf(module) + 1);
  const order =
    later.length === 0
      ? []
      : [inFolders(later, `the module ${module} imports only modules before it`)];
  const walls = [...order, ...wallsOf("modules")];
  return [
    restrict(`modules/${module}/**`, [...walls, NO_QUERIES]),
    restrict(`modules/${module}/stripe/**`, [
      ...order,
      ...wallsOf("modules", ["modules", "stripe"]),
      NO_QUERIES,
    ]),
    restrict(`modules/${module}/**/*.sql.ts`, [
      ...order,
      ...wallsOf("modules", ["modules", "sql"]),
      QUERIES_DECIDE_NOTHING,
    ]),
    restrict(`modules/${module}/**/*.rules.ts`, [...walls, RULES_ARE_PURE]),
  ];
};

// oxlint-disable-next-line import/no-default-export -- oxlint reads the default export.
export default defineConfig({
  plugins: ["eslint", "typescript", "unicorn", "oxc", "import", "promise", "node"],
  jsPlugins: ["./lint/queries.ts"],
  categories: { correctness: "error", suspicious: "error", perf: "error" },
  ignorePatterns: [
    "node_modules",
    ".data",
    ".bin",
    "clients/typescript/dist",
    "clients/typescript/src/generated",
  ],
  rules: {
    curly: ["error", "all"],
    eqeqeq: "error",
    "no-console": "error",
    "import/consistent-type-specifier-style": ["error", "prefer-top-level"],
    "import/no-cycle": ["error", { ignoreTypes: false }],
    "import/no-named-as-default": "off",
    "import/no-default-export": "error",
    "node/no-process-env": "error",
    "no-await-in-loop": "off",
    "typescript/consistent-return": "off",
    "typescript/await-thenable": "error",
    "typescript/consistent-type-imports": "error",
    "typescript/no-explicit-any": "error",
    "typescript/no-floating-promises": "error",
    "typescript/no-misused-promises": "error",
    "typescript/only-throw-error": "error",
    "typescript/restrict-template-expressions": "error",
    "typescript/switch-exhaustiveness-check": "error",
    "max-lines": ["error", { max: 350, skipComments: true, skipBlankLines: true }],
    "max-lines-per-function": ["error", { max: 80, skipComments: true, skipBlankLines: true }],
  },
  overrides: [
    restrict("runtime/**", wallsOf("runtime")),
    restrict("runtime/**/*.rules.ts", [...wallsOf("runtime"), RULES_ARE_PURE]),
    restrict("db/**", wallsOf("db")),
    restrict("db/**/*.rules.ts", [...wallsOf("db"), RULES_ARE_PURE]),
    ...MODULES.flatMap(restrictModule),
    restrict("activities/**", [...wallsOf("activities"), NO_QUERIES]),
    restrict("workflows/**", [...wallsOf("workflows"), ONLY_RULES]),
    restrict("worker/**", [...wallsOf("worker"), NO_QUERIES]),
    restrict("api/**", [...wallsOf("api"), NO_QUERIES, ONLY_READS]),
    restrict("cli/**", [...wallsOf("cli"), NO_QUERIES, ONLY_READS]),
    restrict("embedded/**", wallsOf("embedded")),
    {
      files: ["api/**", "cli/**"],
      rules: {
        "no-restricted-properties": [
          "error",
          { property: "transaction", message: "a transaction belongs to a use case" },
        ],
      },
    },
    { files: ["**/*.sql.ts", "db/**"], rules: { "queries/declared-rows": "error" } },
    {
      files: ["workflows/**"],
      rules: {
        "no-restricted-globals": [
          "error",
          {
            name: "Temporal",
            message: "Temporal.Now is real time in the sandbox: a replay would differ.",
          },
          { name: "fetch", message: "I/O belongs in an activity." },
          { name: "process", message: "Workflow code has no process." },
        ],
      },
    },
    {
      files: ["runtime/config/**", "test/**", "bench/**"],
      rules: { "node/no-process-env": "off" },
    },
    {
      files: ["cli/**", "test/**", "bench/**", "embedded/**"],
      rules: { "no-console": "off" },
    },
    {
      // A test file starts a process and a database, so a subject that shares them is one file.
      files: ["test/**"],
      rules: {
        "max-lines-per-function": "off",
        "max-lines": ["error", { max: 500, skipComments: true, skipBlankLines: true }],
      },
    },
    { files: ["ava*.config.js"], rules: { "import/no-default-export": "off" } },
    { files: ["clients/**"], rules: { "typescript/no-unsafe-type-assertion": "off" } },
  ],
});
