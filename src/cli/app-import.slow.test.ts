/** Tests definitions that Node.js cannot import, in processes of their own. */
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { programWith } from './program.fixture.ts'

let directory: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'tenantry-app-'))
  await writeFile(join(directory, 'package.json'), '{ "type": "module" }')
})
afterAll(() => rm(directory, { recursive: true, force: true }))

const written = async (name: string, text: string): Promise<string> => {
  const path = join(directory, name)
  await mkdir(dirname(path), { recursive: true })
  await writeFile(path, text)
  return path
}

const DECORATED = `const Entity = (): any => (target: unknown) => target

@Entity()
export class Note {}
`
const COMPILE = 'Compile the definition to JavaScript and name the output (`--app ./dist/tenancy.js`)'

const IF_DECORATOR = 'If it is a decorator: Node.js does not support decorators.'
const UNPLACED = 'this file, or a file that it imports, has syntax that Node.js does not support: '

describe('--app with a definition that Node.js cannot import', () => {
  test.each([
    ['an enum', 'export enum Color { Red }', ':1: TypeScript enum is not supported in strip-only mode.'],
    [
      'parameter properties',
      'export class Note {\n  constructor(readonly title: string) {}\n}',
      ':2: TypeScript parameter property is not supported in strip-only mode.',
    ],
    ['a namespace', 'export namespace Notes { export const all = 1 }', ':1: TypeScript namespace declaration is'],
  ])(
    'names file and line of %s in the definition and in a file that it imports, and what to do',
    async (_, text, expected) => {
      const entities = await written('entities/note.ts', text)
      const importing = await written('tenancy.ts', "import './entities/note.ts'\nexport default {}\n")
      for (const app of [entities, importing]) {
        const { code, stdout, stderr } = await programWith({}).run('tenant:list', '--app', app)
        expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
        expect(stderr).toContain(`${app}: ${entities}${expected}`)
        expect(stderr).toContain(COMPILE)
      }
    },
  )

  test('explains decorators in the definition and in a file that it imports', async () => {
    const entities = await written('entities/note.ts', DECORATED)
    const importing = await written('tenancy.ts', "import './entities/note.ts'\nexport default {}\n")
    for (const app of [entities, importing]) {
      const { code, stdout, stderr } = await programWith({}).run('tenant:list', '--app', app)
      expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
      expect(stderr).toContain(`${app}: ${UNPLACED}Invalid or unexpected token. ${IF_DECORATOR}`)
      expect(stderr).toContain(COMPILE)
    }
  })

  test('explains other errors of syntax', async () => {
    const unclosed = await written('unclosed.js', "export const a = 'abc\n")
    const doubled = await written('doubled.js', 'export const a = = 1\n')
    const run = async (app: string) => (await programWith({}).run('tenant:list', '--app', app)).stderr
    expect(await run(unclosed)).toContain(`${unclosed}: ${UNPLACED}Invalid or unexpected token. ${IF_DECORATOR}`)
    expect(await run(doubled)).toContain(`${doubled}: ${UNPLACED}Unexpected token '='`)
    expect(await run(doubled)).not.toContain('decorator')
  })

  test.each([
    ['decorators', DECORATED, `:3: Invalid or unexpected token. ${IF_DECORATOR}`],
    ['an enum', 'export enum Color { Red }', ':1: TypeScript enum is not supported in strip-only mode.'],
  ])('names file and line of %s in a package without "type": "module"', async (_, text, expected) => {
    await written('common js/package.json', '{}')
    const entities = await written('common js/note.ts', text)
    const importing = await written('common js/tenancy.ts', "require('./note.ts')\nmodule.exports = {}\n")
    for (const app of [entities, importing]) {
      const { code, stderr } = await programWith({}).run('tenant:list', '--app', app)
      expect(code).toBe(2)
      expect(stderr).toContain(`${app}: ${entities}${expected}`)
      expect(stderr).toContain(COMPILE)
    }
  })

  test('runs a definition once', async () => {
    await written('invalid.js', 'export const a = = 1\n')
    const runs = join(directory, 'runs')
    const app = await written(
      'tenancy.ts',
      `import { appendFileSync } from 'node:fs'
appendFileSync(${JSON.stringify(runs)}, \`main: \${import.meta.main ?? false}\\n\`)
await import('./invalid.js')
export default {}
`,
    )
    const { code, stderr } = await programWith({}).run('tenant:list', '--app', app)
    expect(await readFile(runs, 'utf8')).toBe('main: false\n')
    expect(code).toBe(2)
    expect(stderr).toContain(`${app}: ${UNPLACED}Unexpected token '='`)
  })

  test.each([
    ['a file without its extension', './note', 'Imports name files with their extension, as in `./entities.ts`.'],
    ['a file that does not exist', './absent.js', 'Imports name files with their extension'],
    ['a directory', './folder', 'Imports name files with their extension'],
    ['an alias of tsconfig.json', '@/note.ts', 'If it is an alias of `paths` in tsconfig.json, use a relative path'],
    ['a package that is not installed', 'not-installed', "Cannot find package 'not-installed' imported from"],
    ['a file with JSX', './page.tsx', COMPILE],
  ])('explains an import of %s', async (_, specifier, expected) => {
    await written('note.ts', 'export interface Note { title: string }')
    await written('page.tsx', 'export const page = 1')
    await written('folder/index.ts', 'export const note = 1')
    const app = await written('tenancy.ts', `import '${specifier}'\nexport default {}\n`)
    const { code, stderr } = await programWith({}).run('tenant:list', '--app', app)
    expect(code).toBe(2)
    expect(stderr).toContain(expected)
    expect(stderr).toContain(app)
  })

  test('explains an import of a type without `type`', async () => {
    await written('note.ts', 'export interface Note { title: string }')
    const app = await written('tenancy.ts', "import { Note } from './note.ts'\nexport default {} as Note\n")
    const { stderr } = await programWith({}).run('tenant:list', '--app', app)
    expect(stderr).toContain(`${app}:1: The requested module './note.ts' does not provide an export named 'Note'.`)
    expect(stderr).toContain('Import types by `import type`.')
  })
})
