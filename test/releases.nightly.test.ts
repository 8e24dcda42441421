/** Upgrades an installation of each release that test/releases records. */
import { readFileSync } from 'node:fs'
import { expect, inject, test } from 'vitest'
import { schemaPg } from '../src/drivers/isolation/schema-pg.ts'
import { createHttp, DEFAULT_PREFIX } from '../src/http/app.ts'
import { createLogger } from '../src/kernel/base/logger.ts'
import { Database } from '../src/kernel/database/database.ts'
import { migrate } from '../src/kernel/database/migrations.ts'
import { catalogueOf } from '../src/service/catalogue.ts'
import { satellites, satellitesOn } from '../src/service/main.ts'
import { createTenancy } from '../src/tenancy/tenancy.ts'
import { createTestDatabase } from '../src/testing/base/database.ts'
import { TEST_APP_KEY } from '../src/testing/base/tenancy.ts'
import { readRecorded, recordedFile, releases } from './releases/recorded.ts'

const { tables } = catalogueOf(satellites)

test.each(releases)('a start upgrades an installation of %s and keeps its data', async (release) => {
  const released: Record<string, Record<string, string>> = readRecorded(release, 'migrations.json')
  const { url, drop } = await createTestDatabase(inject('postgresUrl'))
  const log = createLogger({ level: 'silent' })
  const database = new Database({ url }, log)
  try {
    const then = tables.flatMap(({ part, migrations }) => {
      const known = released[part]
      return known ? [{ part, migrations: migrations.filter(({ name }) => name in known) }] : []
    })
    expect(await migrate(database, then)).toHaveLength(Object.values(released).flatMap(Object.keys).length)
    await database.sql(readFileSync(recordedFile(release, 'rows.sql'), 'utf8'))

    const tenancy = await createTenancy({
      database: { url },
      appKey: TEST_APP_KEY,
      isolation: [schemaPg()],
      satellites: satellitesOn({ satellites: {} }),
      role: 'api',
      logger: log,
    })
    try {
      const token = 'a-token-of-the-upgrade-0123456789'
      const http = createHttp(tenancy, { adminTokens: [{ name: 'upgrade', token }] })
      const get = async (path: string) => {
        const response = await http.fetch(
          new Request(`http://localhost${DEFAULT_PREFIX}${path}`, { headers: { 'x-admin-token': token } }),
        )
        expect(response.status, path).toBe(200)
        return response.json() as Promise<any>
      }
      for (const [path, held] of Object.entries(readRecorded(release, 'held.json'))) {
        expect(await get(path), path).toMatchObject(held as object)
      }
    } finally {
      await tenancy.stop()
    }
  } finally {
    await database.close()
    await drop()
  }
})
