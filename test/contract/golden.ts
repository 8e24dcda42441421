/**
 * Compares output of commands with committed golden files, so that a review shows changes. Golden files of a satellite
 * are in its folder. `UPDATE_GOLDEN=1 npx vitest run test/golden` writes them again.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect } from 'vitest'
import { allCommands } from '../../src/cli/program.ts'
import { satellites } from '../../src/service/main.ts'
import { jsonOf } from './printed.ts'
import { shapeOf } from './shape.ts'

const ROOT = join(import.meta.dirname, '../..')
const OWN = join(import.meta.dirname, '../golden')
const SATELLITES = join(import.meta.dirname, '../../src/satellites')
const isUpdating = Boolean(process.env.UPDATE_GOLDEN)

const kebab = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)

const folders = satellites.flatMap(({ name, commands = [] }) =>
  commands.map((command) => [command.name, join(SATELLITES, kebab(name), 'golden')] as const),
)
const folderOf = new Map<string, string>(folders)

const pathOf = (command: string, ending: string): string =>
  join(folderOf.get(command) ?? OWN, `${command.replaceAll(':', '-')}.${ending}`)

/** @param ending `json.txt` or `txt` */
export function expectGolden(command: string, ending: string, text: string): void {
  const path = pathOf(command, ending)
  if (isUpdating) {
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, text)
  }
  if (!existsSync(path)) expect.fail(`${path} does not exist: UPDATE_GOLDEN=1 writes it`)
  expect(text).toBe(readFileSync(path, 'utf8'))
}

/** Golden files without a command or a text in `pages`; removed by an update. */
export function orphanedGoldens(pages: readonly string[]): string[] {
  const known = new Set([
    ...allCommands().map(({ name }) => pathOf(name, 'json.txt')),
    ...pages.map((name) => pathOf(name, 'txt')),
  ])
  const places = [OWN, ...readdirSync(SATELLITES).map((folder) => join(SATELLITES, folder, 'golden'))]
  const there = places.flatMap((place) =>
    existsSync(place) ? readdirSync(place).map((file) => join(place, file)) : [],
  )
  const orphaned = there.filter((path) => !known.has(path))
  if (!isUpdating) return orphaned
  for (const path of orphaned) rmSync(path)
  return []
}

/** Compares the command line and its output. */
export function expectPrinted(name: string, line: readonly string[], stdout: string): void {
  expect(stdout).not.toBe('')
  const printed = jsonOf(stdout).map(shapeOf)
  const distinct = [...new Set(printed.map((value) => JSON.stringify(value, null, 2)))]
  const typed = line.map((word) => word.replace(ROOT, '.')).map((word) => (/[\s"]/.test(word) ? `'${word}'` : word))
  const command = ['$ tenantry', name, ...typed, '--json'].join(' ')
  expectGolden(name, 'json.txt', `${[command, ...distinct].join('\n')}\n`)
}

/** The actor of a remote command is its token. */
const OF_THE_TOKEN = { type: 'admin', id: 'admin', name: 'admin' }
const OF_THE_HOST = { type: 'host', id: 'host', name: 'host' }

/** Compares the value of a command on a remote service with its golden file, regardless of the order of members. */
export function expectSameValue(name: string, stdout: string): void {
  const [, ...lines] = readFileSync(pathOf(name, 'json.txt'), 'utf8').split('\n')
  expect(withoutToken(shapeOf(JSON.parse(stdout)))).toEqual(withoutToken(JSON.parse(lines.join('\n'))))
}

const withoutToken = (value: unknown): unknown =>
  JSON.parse(
    JSON.stringify(value)
      .replaceAll(JSON.stringify(OF_THE_TOKEN), JSON.stringify(OF_THE_HOST))
      .replaceAll(`"startedBy":"${OF_THE_TOKEN.name}"`, `"startedBy":"${OF_THE_HOST.name}"`),
  )
