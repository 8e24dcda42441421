/** Checks that texts contain none of the listed words: comments, messages, titles and documents name their subject. */
import { globSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { expect, test } from 'vitest'

const ROOT = join(import.meta.dirname, '..')
const WORDS = /\b(whoever|somebody|someone|nobody|whatever|whichever|anybody|anew)\b/gi

/** Code of a finding: a contract with hosts. */
const FINDING_CODE = /\bwebhooks\.nobody-sends\b/g

/** Words that are names in a file. */
const NAMES: Readonly<Record<string, readonly string[]>> = {
  // the system user
  'src/service/postgres-programs.ts': ['nobody'],
  'test/pooler/pgbouncer.ts': ['nobody'],
}

const FILES = globSync(
  [
    '*.{ts,md,json,sql}',
    '{src,test,docs,examples,bench}/**/{Dockerfile,*.{ts,md,json,txt,sql,yml,yaml,prisma,service}}',
  ],
  // Excluded: packages, recorded releases, lock files, and this list of words.
  { cwd: ROOT, exclude: ['**/node_modules', '**/dist', 'test/releases'] },
)
  .map((file) => file.replaceAll('\\', '/'))
  .filter((file) => basename(file) !== 'package-lock.json' && file !== 'test/language.test.ts')

/** Returns each indefinite word of a file as `file:line: word`. */
function indefiniteWords(file: string): string[] {
  const names = NAMES[file] ?? []
  return readFileSync(join(ROOT, file), 'utf8')
    .split('\n')
    .flatMap((line, index) =>
      [...line.replace(FINDING_CODE, '').matchAll(WORDS)]
        .filter(([word]) => !names.includes(word))
        .map(([word]) => `${file}:${index + 1}: ${word}`),
    )
}

test('the check reads sources, tests, documents, examples and benchmarks', () => {
  for (const file of ['README.md', 'openapi.json', 'src/index.ts', 'test/architecture.test.ts', 'docs/webhooks.md']) {
    expect(FILES).toContain(file)
  }
  for (const folder of ['examples/', 'bench/']) expect(FILES.some((file) => file.startsWith(folder))).toBe(true)
})

test('no text contains a word of the list', () => {
  expect(FILES.flatMap(indefiniteWords)).toEqual([])
})

test('each name that is an exception occurs in its file', () => {
  for (const [file, names] of Object.entries(NAMES)) {
    const text = readFileSync(join(ROOT, file), 'utf8')
    for (const name of names) expect(text).toMatch(new RegExp(`\\b${name}\\b`))
  }
})
