/** Classification of an error that only a lost network connection causes. */
import pg from 'pg'
import { expect, inject, test } from 'vitest'
import { startProxy } from '../../../test/support/proxy.ts'
import { outcomesOf } from './classify.ts'

test('a session with a lost connection counts as a failure of a shared server, and of a tenant with its own database', async () => {
  const proxy = await startProxy(inject('postgresUrl'))
  const client = new pg.Client(proxy.url)
  client.on('error', () => undefined)
  await client.connect()
  const query = client.query('select pg_sleep(30)').catch((failure: unknown) => failure)
  await proxy.close()
  const error = await query
  expect(outcomesOf(error, 'shared database')).toEqual({ server: 'failure', tenant: 'neither' })
  expect(outcomesOf(error, 'own database')).toEqual({ server: 'neither', tenant: 'failure' })
})
