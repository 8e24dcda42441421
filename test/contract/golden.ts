/**
 * Golden files: what a command prints, committed, so that a change of it is seen in a review. Those of a satellite's commands are
 * in its folder and come and go with it. `UPDATE_GOLDEN=1 npx vitest run test/golden` writes them anew.
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
  if (!existsSync(path)) expect.fail(`there is no ${path}: UPDATE_GOLDEN=1 writes it`)
  expect(text).toBe(readFileSync(path, 'utf8'))
}

/** Golden files that no command, or text for people in `pages`, accounts for; they are removed when updating. */
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

/** The line that was typed, and what came of it. */
export function expectPrinted(name: string, line: readonly string[], stdout: string): void {
  expect(stdout).not.toBe('')
  const printed = jsonOf(stdout).map(shapeOf)
  const distinct = [...new Set(printed.map((value) => JSON.stringify(value, null, 2)))]
  const typed = line.map((word) => word.replace(ROOT, '.')).map((word) => (/[\s"]/.test(word) ? `'${word}'` : word))
  const command = ['$ tenantry', name, ...typed, '--json'].join(' ')
  expectGolden(name, 'json.txt', `${[command, ...distinct].join('\n')}\n`)
}
