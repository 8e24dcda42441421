import pg from 'pg'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import type { IsolationDriver } from '../../tenants/isolation.ts'
import { catalogOf, exported, never, replayed } from './copy.fixture.ts'
import { OLD_ROWS, RICH, ROWS } from './copy-rich.fixture.ts'
import { createInstallation, type Installation, placeOf, provisioned } from './installation.fixture.ts'
import { schemaPg } from './schema-pg.ts'

let installation: Installation
let driver: IsolationDriver
let client: pg.Client

beforeAll(async () => {
  installation = await createInstallation(inject('postgresUrl'), { driver: () => schemaPg(), migrations: RICH })
  driver = await installation.open(await installation.prepare())
  client = new pg.Client(installation.url)
  await client.connect()
})
afterAll(async () => {
  await client.end()
  await installation.end()
})

describe('storage that was made by an import', () => {
  test('is the same as any other, whatever was in it', async () => {
    await provisioned(driver, 'fresh')
    const full = await provisioned(driver, 'full')
    await client.query('set search_path = t1_full')
    for (const text of ROWS) await client.query(text)
    await client.query(OLD_ROWS)
    await client.query('reset search_path')
    const copy = await exported(driver, placeOf(driver, 'full'))
    console.log(copy.csv, copy.totals, copy.description.sequences)
    const imported = await driver.import(placeOf(driver, 'other'), replayed(copy, 7), {
      signal: never(),
      onPhase: (phase) => console.log(phase),
    })
    console.log(imported)
    expect(await catalogOf(client, 't1_other')).toEqual(await catalogOf(client, 't1_fresh'))
    expect(full).toBeDefined()
  })
})
