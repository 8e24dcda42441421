import type { Generated } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../../testing/base/database.ts'
import { createLogger } from '../base/logger.ts'
import { Database, SCHEMA, sqlState, violatedConstraint } from './database.ts'

interface Tables {
  notes: { id: Generated<number>; title: string; writtenBy: string | null; details: unknown; size: number | null }
}

const log = createLogger({ level: 'silent' })
let created: TestDatabase
let database: Database
/** Sees only what is committed. */
let onlooker: Database

beforeAll(async () => {
  created = await createTestDatabase(inject('postgresUrl'))
  database = new Database({ url: created.url, max: 5 }, log)
  onlooker = new Database({ url: created.url, max: 1 }, log)
  await database.sql(`create schema ${SCHEMA}`)
  await database.sql(`create table ${SCHEMA}.notes (
    id bigint generated always as identity primary key, title text not null constraint notes_title unique,
    written_by text, details jsonb, size bigint)`)
})
beforeEach(async () => {
  await database.sql(`truncate ${SCHEMA}.notes restart identity`)
})
afterAll(async () => {
  await database.close()
  await onlooker.close()
  await created.drop()
})

const write = (title: string) => database.query<Tables>().insertInto('notes').values({ title }).execute()
const titles = async (by = database): Promise<string[]> =>
  (await by.query<Tables>().selectFrom('notes').select('title').orderBy('id').execute()).map(({ title }) => title)
const failWith = (message: string) => {
  throw new Error(message)
}
describe('a transaction', () => {
  test('shows nothing before its commit and everything after', async () => {
    const result = await database.transaction(async () => {
      await write('a')
      await database.sql(`insert into ${SCHEMA}.notes (title) values ($1)`, ['b'])
      expect(await titles()).toEqual(['a', 'b'])
      expect(await titles(onlooker)).toEqual([])
      return 'done'
    })
    expect(result).toBe('done')
    expect(await titles(onlooker)).toEqual(['a', 'b'])
  })

  test('that fails leaves no change, also of plain SQL, and passes its error on', async () => {
    const failing = database.transaction(async () => {
      await write('a')
      await database.sql(`insert into ${SCHEMA}.notes (title) values ('b')`)
      failWith('no')
    })
    await expect(failing).rejects.toThrow('no')
    expect(await titles()).toEqual([])
  })

  test('with an ignored error of a statement fails at its commit', async () => {
    let isCommitted = false
    const failing = database.transaction(async () => {
      await write('a')
      database.afterCommit(() => {
        isCommitted = true
      })
      await database.sql('select 1 / 0').catch(() => undefined)
    })
    await expect(failing).rejects.toThrow()
    expect(await titles()).toEqual([])
    expect(isCommitted).toBe(false)
  })

  test('belongs to its async context: concurrent contexts do not join', async () => {
    const isInside = Promise.withResolvers<void>()
    const mayEnd = Promise.withResolvers<void>()
    const open = database.transaction(async () => {
      await write('inside')
      isInside.resolve()
      await mayEnd.promise
      failWith('no')
    })
    await isInside.promise
    expect(database.inTransaction).toBe(false)
    await write('beside')
    mayEnd.resolve()
    await expect(open).rejects.toThrow('no')
    expect(await titles()).toEqual(['beside'])
  })

  test('sets inTransaction', async () => {
    expect(database.inTransaction).toBe(false)
    await database.transaction(async () => expect(database.inTransaction).toBe(true))
  })

  test('returns its connection to the pool after success and failure', async () => {
    for (let n = 0; n < 20; n++) {
      await database.transaction(async () => undefined)
      await database.transaction(async () => failWith('no')).catch(() => undefined)
      await database.transaction(() => database.sql('select 1 / 0')).catch(() => undefined)
      await database.transaction(() => database.sql('select 1 / 0').catch(() => undefined)).catch(() => undefined)
    }
    expect(await titles()).toEqual([])
  })

  test('does not include statements of a separate pool for the same database', async () => {
    const apart = database.apart(1)
    const failing = database.transaction(async () => {
      expect(apart.inTransaction).toBe(false)
      await apart.sql(`insert into ${SCHEMA}.notes (title) values ('apart')`)
      failWith('no')
    })
    await expect(failing).rejects.toThrow('no')
    expect(await titles()).toEqual(['apart'])
    await apart.close()
  })
})

describe('a nested transaction', () => {
  test('that fails rolls back its own changes only', async () => {
    await database.transaction(async () => {
      await write('before')
      await database
        .transaction(async () => {
          await write('within')
          await database.transaction(() => write('further within'))
          failWith('no')
        })
        .catch(() => undefined)
      await write('after')
    })
    expect(await titles()).toEqual(['before', 'after'])
  })

  test('allows the outer one to continue after a rejected statement', async () => {
    await database.transaction(async () => {
      await write('a')
      const refused = database.transaction(() => write('a'))
      await expect(refused).rejects.toSatisfy((error) => violatedConstraint(error) === 'notes_title')
      await write('b')
    })
    expect(await titles()).toEqual(['a', 'b'])
  })

  test('that succeeded is rolled back with the outer one', async () => {
    const failing = database.transaction(async () => {
      await database.transaction(() => write('within'))
      failWith('no')
    })
    await expect(failing).rejects.toThrow('no')
    expect(await titles()).toEqual([])
  })

  test('may follow another one, at any depth', async () => {
    const nest = async (depth: number): Promise<void> => {
      await write(`depth ${depth}`)
      if (depth < 5) await database.transaction(() => nest(depth + 1))
    }
    await database.transaction(async () => {
      await database.transaction(() => nest(1))
      await database.transaction(() => write('last'))
    })
    expect(await titles()).toEqual(['depth 1', 'depth 2', 'depth 3', 'depth 4', 'depth 5', 'last'])
  })

  test('is rejected while another one runs, because it would end its savepoint', async () => {
    await database.transaction(async () => {
      const outcomes = await Promise.allSettled([
        database.transaction(() => write('first')),
        database.transaction(() => write('second')),
      ])
      expect(outcomes).toMatchObject([
        { status: 'fulfilled' },
        { reason: { message: /^two nested transactions at once/ } },
      ])
    })
    expect(await titles()).toEqual(['first'])
  })

  test('that loses the connection fails with that error, not with the failed rollback', async () => {
    const failing = database.transaction(() =>
      database.transaction(() => database.sql('select pg_terminate_backend(pg_backend_pid())')),
    )
    await expect(failing).rejects.toSatisfy((error) => sqlState(error) === '57P01')
  })
})

describe('a prepared statement', () => {
  const count = { name: 'count_notes', text: `select count(*) as count from ${SCHEMA}.notes where title <> $1` }

  test('is parsed once on a connection', async () => {
    const [first, second] = [await onlooker.sql(count, ['a']), await onlooker.sql(count, ['b'])]
    expect([first.rows, second.rows]).toEqual([[{ count: 0 }], [{ count: 0 }]])
    const { rows } = await onlooker.sql('select name, generic_plans + custom_plans as runs from pg_prepared_statements')
    expect(rows).toEqual([{ name: 'count_notes', runs: 2 }])
  })

  test('joins a transaction', async () => {
    await database.transaction(async () => {
      await write('a')
      expect((await database.sql(count, [''])).rows).toEqual([{ count: 1 }])
    })
  })
})

describe('rows', () => {
  test('have camelCase names, and unchanged names inside JSON', async () => {
    const details = { snake_case: 1, camelCase: 2, nested_list: [{ other_key: null }] }
    const values = { title: 'a', writtenBy: 'ada', details }
    const [row] = await database.query<Tables>().insertInto('notes').values(values).returningAll().execute()
    expect(row).toEqual({ id: 1, size: null, ...values })
    const { rows } = await database.sql(`select written_by, details from ${SCHEMA}.notes`)
    expect(rows).toEqual([{ written_by: 'ada', details }])
  })

  test('contain a bigint as a number, inside and outside of a transaction', async () => {
    const size = Number.MAX_SAFE_INTEGER
    await database.query<Tables>().insertInto('notes').values({ title: 'a', size }).execute()
    const read = async () => [
      (await database.query<Tables>().selectFrom('notes').select('size').executeTakeFirst())?.size,
      (await database.sql(`select size, count(*) from ${SCHEMA}.notes group by size`)).rows[0],
    ]
    expect(await read()).toEqual([size, { size, count: 1 }])
    expect(await database.transaction(read)).toEqual([size, { size, count: 1 }])
  })

  test('that violate a constraint are rejected with its name', async () => {
    await write('a')
    const error = await write('a').catch((failure: unknown) => failure)
    expect(violatedConstraint(error)).toBe('notes_title')
    expect(sqlState(error)).toBe('23505')
    const other = await database.sql('select 1 / 0').catch((failure: unknown) => failure)
    expect(violatedConstraint(other)).toBeUndefined()
    expect(violatedConstraint(new Error('no'))).toBeUndefined()
    expect(sqlState(new Error('no'))).toBeUndefined()
  })
})
