/**
 * `node --conditions=tenantry-source test/releases/record.ts`: records the present version with the program that `npm
 * run build` created. `rows.sql` and `held.json` are written by hand: the data of an installation, and the expected
 * data after an upgrade.
 */
import { execFileSync } from 'node:child_process'
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { catalogueOf } from '../../src/service/catalogue.ts'
import { VERSION } from '../../src/tenancy/version.ts'
import { checksumsOf } from './checksums.ts'

/** Parts of the build that only readers or browsers need. */
const LEFT_OUT = ['*.map', '*.d.ts', 'dist/testing', 'dist/http/pages/vendor']

if (import.meta.main) {
  const { satellites } = await import('../../src/service/main.ts')
  const directory = join(import.meta.dirname, VERSION)
  mkdirSync(directory, { recursive: true })
  copyFileSync(join(import.meta.dirname, '../../openapi.json'), join(directory, 'openapi.json'))
  const { tables } = catalogueOf(satellites)
  writeFileSync(join(directory, 'migrations.json'), `${JSON.stringify(checksumsOf(tables), null, 2)}\n`)
  const without = LEFT_OUT.map((name) => `--exclude=${name}`)
  execFileSync('tar', [...without, '-czf', join(directory, 'program.tgz'), 'package.json', 'dist'], {
    cwd: join(import.meta.dirname, '../..'),
  })
}
