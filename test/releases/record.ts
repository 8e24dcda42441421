/**
 * `node --conditions=tenantry-source test/releases/record.ts`: records what is released, under the version of the package. `rows.sql` and
 * `held.json` are written by hand: what an installation of that version may hold, and what is asked of it after an upgrade.
 */
import { createHash } from 'node:crypto'
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { MigratedPart } from '../../src/kernel/migrations.ts'
import { catalogueOf } from '../../src/service/catalogue.ts'
import { VERSION } from '../../src/version.ts'

/** By part and name, in their order. */
export const checksumsOf = (parts: readonly MigratedPart[]): Record<string, Record<string, string>> =>
  Object.fromEntries(
    parts.map(({ part, migrations }) => [
      part,
      Object.fromEntries(migrations.map(({ name, up }) => [name, createHash('sha256').update(up).digest('hex')])),
    ]),
  )

if (import.meta.main) {
  const { satellites } = await import('../../src/service/main.ts')
  const directory = join(import.meta.dirname, VERSION)
  mkdirSync(directory, { recursive: true })
  copyFileSync(join(import.meta.dirname, '../../openapi.json'), join(directory, 'openapi.json'))
  const { tables } = catalogueOf(satellites)
  writeFileSync(join(directory, 'migrations.json'), `${JSON.stringify(checksumsOf(tables), null, 2)}\n`)
}
