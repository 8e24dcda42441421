/**
 * What the console must have, from its modules and sources: a screen or a reason for each operation, a text for each error code, and no
 * key with two effects at one place.
 */
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import type { ConsoleModule } from '../../src/console/module.ts'
import { catalogueOf } from '../../src/service/catalogue.ts'
import { satellites } from '../../src/service/satellites.ts'

const SOURCE = join(import.meta.dirname, '../../src')
const { operations, errors } = catalogueOf(satellites)

let modules: readonly ConsoleModule[]
let keysOfConsole: readonly string[]
/** Sources of the console without types of operations and without reasons. */
let sources: ReadonlyMap<string, string>

beforeAll(async () => {
  stubBrowser()
  const found = globSync('{console,tenants/console,satellites/*/console}/**/*.{ts,tsx}', { cwd: SOURCE })
  const files = found.map((file) => file.replaceAll('\\', '/')).filter((file) => file !== 'console/api/operations.ts')
  sources = new Map(files.map((file) => [file, withoutReasons(readFileSync(join(SOURCE, file), 'utf8'))]))
  const indexes = [
    'console/shell/index.tsx',
    ...files.filter((file) => /^(tenants|satellites\/[^/]+)\/console\/index\.tsx$/.test(file)),
  ]
  const loaded = await Promise.all(indexes.map((file) => import(join(SOURCE, file))))
  modules = loaded.map((module) => module.default)
  keysOfConsole = Object.keys((await import(join(SOURCE, 'console/keys/keys.ts'))).KEYS)
})
afterAll(() => vi.unstubAllGlobals())

/** Members of a browser that modules read when they are loaded. */
function stubBrowser(): void {
  const root = {
    dataset: {
      settings: '{ "prefix": "/admin", "modules": {}, "hostModules": [], "hostSatellites": [], "links": [] }',
    },
  }
  vi.stubGlobal('document', { getElementById: () => root, addEventListener: () => undefined, documentElement: root })
  vi.stubGlobal('localStorage', { getItem: () => null })
}

const withoutReasons = (text: string): string => text.replace(/^ {2}notShown: \{[\s\S]*?\}/m, '')
const reasonsOf = (): [name: string, reason: string][] =>
  modules.flatMap(({ notShown = {} }) => Object.entries(notShown))

describe('operations', () => {
  test('each is named by a screen, or its module gives a reason', () => {
    const screens = [...sources].filter(([file]) => !file.startsWith('console/data/'))
    const text = screens.map(([, source]) => source).join('\n')
    const reasons = new Map(reasonsOf())
    const names = operations.map(({ name }) => name)
    const isNamed = (name: string) => text.includes(`'${name}'`)
    expect(names.filter((name) => !isNamed(name) && !reasons.has(name))).toEqual([])
    expect(names.filter((name) => isNamed(name) && reasons.has(name))).toEqual([])
  })

  test('a reason is a sentence about a known operation', () => {
    const names = operations.map(({ name }) => name)
    for (const [name, reason] of reasonsOf()) {
      expect(names).toContain(name)
      expect(reason.length, name).toBeGreaterThan(20)
    }
  })

  test('names in modules are those of operations', () => {
    const names = operations.map(({ name }) => name)
    const needed = modules.flatMap(
      ({
        screens = [],
        tabs = [],
        cards = [],
        home = [],
        header = [],
        bars = [],
        actions = [],
        palette = [],
        keys = [],
        columns = [],
      }) =>
        [
          ...screens,
          ...tabs,
          ...cards,
          ...home,
          ...header,
          ...bars,
          ...actions,
          ...palette,
          ...keys,
          ...columns,
        ].flatMap(({ needs }) => needs),
    )
    const announced = modules.flatMap(({ announced = [] }) => announced)
    expect([...needed, ...announced].filter((name) => !names.includes(name))).toEqual([])
  })
})

describe('error codes', () => {
  test('each code of an operation has a text', () => {
    const texts: Record<string, string> = JSON.parse(readFileSync(join(SOURCE, 'console/api/errors.json'), 'utf8'))
    const declared = [...errors, ...operations.flatMap(({ errors = [], jobErrors = [] }) => [...errors, ...jobErrors])]
    expect(declared.map(({ code }) => code).filter((code) => !texts[code]?.trim())).toEqual([])
  })

  test('each code that the console compares with exists', () => {
    const known = JSON.parse(readFileSync(join(SOURCE, 'console/api/errors.json'), 'utf8'))
    const own = ['E_UNREACHABLE', 'E_UNKNOWN', 'E_CONSOLE', 'E_NO_TOKEN'] // without a response of the service
    const used = [...sources].flatMap(([file, text]) =>
      [...text.matchAll(/\bE_[A-Z_]{3,}\b/g)].map(([code]) => [code, file] as const),
    )
    expect(used.length).toBeGreaterThan(0)
    expect(used.filter(([code]) => !(code in known) && !own.includes(code))).toEqual([])
  })
})

describe('keys', () => {
  test('g and a letter open one screen; h is Home', () => {
    const letters = modules.flatMap(({ screens = [] }) => screens.flatMap(({ key }) => key ?? []))
    expect(letters.length).toBeGreaterThan(2)
    expect(repeated(['h', ...letters])).toEqual([])
  })

  test('a key of an action has one effect on an object, and none in the whole console', () => {
    const actions = modules.flatMap(({ actions = [] }) => actions.filter(({ key }) => key))
    const [first] = actions
    expect(first).toBeDefined()
    // Two actions may have one key if they apply to different states of an object, as a switch.
    const always = actions.filter(({ isAvailable }) => !isAvailable)
    expect(repeated(always.map(({ target, key }) => `${target} ${key}`))).toEqual([])
    expect(actions.filter(({ key = '' }) => keysOfConsole.includes(key) || key === 'g')).toEqual([])
  })

  test('a key of every screen has one effect', () => {
    const keys = modules.flatMap(({ keys = [] }) => keys.map(({ key }) => key))
    expect(repeated([...keys, ...keysOfConsole])).toEqual([])
  })

  test('a key of a control is no key of the whole console', () => {
    const controls = [...sources.values()].flatMap((text) =>
      [...text.matchAll(/(?:shortcut|data-key)="(.)"/g)].map(([, key = '']) => key),
    )
    expect(controls).not.toEqual([])
    expect(controls.filter((key) => keysOfConsole.includes(key))).toEqual([])
  })
})

test('names of modules, paths of screens and tabs, names of actions, and keys of columns are unique', () => {
  const paths = modules.flatMap(({ screens = [] }) => screens.map(({ path }) => path))
  const tabs = modules.flatMap(({ tabs = [] }) => tabs.map(({ path }) => path))
  const actions = modules.flatMap(({ actions = [] }) => actions.map(({ name }) => name))
  const columns = modules.flatMap(({ columns = [] }) => columns.map(({ key }) => key))
  for (const all of [modules.map(({ name }) => name), paths, tabs, actions, columns]) expect(repeated(all)).toEqual([])
})

test('each built-in satellite has a module of its name', () => {
  const names = modules.map(({ name }) => name)
  expect(names.toSorted()).toEqual(['shell', 'tenants', ...satellites.map(({ name }) => name)].toSorted())
})

const repeated = (all: readonly string[]): string[] => all.filter((one, index) => all.indexOf(one) !== index)
