import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { lazy } from '../../../test/support/lazy.ts'
import { runInContext } from '../../index.ts'
import { currentContext, enterContext, NO_TENANT, SYSTEM } from '../../kernel/base/context.ts'
import { installed, type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import { assertAgrees } from './agreement.ts'
import { createScope, type Scope } from './tenant-context.ts'

const MISMATCH = { code: 'E_TENANT_MISMATCH', status: 500 }

let opened: TestTenancy<[]>
let scope: Scope
beforeAll(async () => {
  opened = await testTenancy(inject('postgresUrl'))
  scope = createScope(opened.tenancy.tenants, opened.tenancy.kernel.database, opened.tenancy.kernel.log)
  for (const id of ['acme', 'globex']) await installed(opened.tenancy, { id, name: id })
})
afterAll(() => opened.end())

const inContextOf = <T>(tenantId: string | null | undefined, work: () => T): T =>
  enterContext({ requestId: 'r', actor: SYSTEM, ip: null, tenantId }, work)

test('run executes work with the handle of its tenant, and keeps the rest of the context', async () => {
  const seen = await inContextOf(undefined, () =>
    scope.run('acme', async (tenant) => {
      await Promise.resolve()
      return { id: tenant.id, current: (await scope.current()).id, context: currentContext() }
    }),
  )
  expect(seen).toEqual({
    id: 'acme',
    current: 'acme',
    context: { requestId: 'r', actor: SYSTEM, ip: null, tenantId: 'acme' },
  })
  expect(currentContext().tenantId).toBeUndefined()
  expect(await scope.run('acme', () => 7)).toBe(7)
  await expect(scope.run('acme', () => Promise.reject(new Error('mine')))).rejects.toThrow('mine')
})

test('run rejects an unusable tenant before its work starts', async () => {
  const started: string[] = []
  await expect(scope.run('unknown', () => started.push('x'))).rejects.toMatchObject({ code: 'E_TENANT_NOT_FOUND' })
  await opened.tenancy.tenants.suspend('globex')
  await expect(scope.run('globex', () => started.push('x'))).rejects.toMatchObject({ code: 'E_TENANT_SUSPENDED' })
  await inContextOf('globex', () => expect(scope.current()).rejects.toMatchObject({ code: 'E_TENANT_SUSPENDED' }))
  await opened.tenancy.tenants.activate('globex')
  expect(started).toEqual([])
})

test('rejects a handle of another tenant than that of the context', async () => {
  for (const open of [undefined, null, 'acme']) inContextOf(open, () => assertAgrees('acme'))
  for (const other of ['globex', NO_TENANT]) {
    inContextOf(other, () => expect(() => assertAgrees('acme')).toThrow(expect.objectContaining(MISMATCH)))
    await inContextOf(other, () => expect(scope.run('acme', () => 'x')).rejects.toMatchObject(MISMATCH))
  }
  await scope.run('acme', async () => {
    await expect(scope.run('globex', () => 'x')).rejects.toMatchObject(MISMATCH)
    expect(await scope.run('acme', ({ id }) => id)).toBe('acme')
  })
})

test('a mismatch error names no tenant; the log does', () => {
  const error = inContextOf('globex', () => {
    try {
      assertAgrees('acme')
    } catch (thrown) {
      return thrown as Error
    }
  })
  expect(error?.message).not.toMatch(/acme|globex/)
  expect(String(error?.cause)).toContain('the context has tenant "globex", not "acme"')
})

test('the error of a context without a tenant names the ways to set one', async () => {
  for (const none of [undefined, null, NO_TENANT]) {
    await inContextOf(none, () =>
      expect(scope.current()).rejects.toMatchObject({ ...MISMATCH, message: expect.stringContaining('tenancy.run') }),
    )
  }
})

describe('a context with a tenant', () => {
  const actor = { type: 'user', id: 'ann', name: 'Ann' } as const

  test('cannot use another tenant in runInContext at any depth', async () => {
    const globex = await opened.tenancy.tenant('globex')
    await scope.run('acme', () =>
      runInContext({ actor }, async () => {
        expect(currentContext()).toMatchObject({ tenantId: 'acme', actor })
        expect((await scope.current()).id).toBe('acme')
        await expect(scope.run('globex', () => 'x')).rejects.toMatchObject(MISMATCH)
        await expect(globex.pool.query('select 1')).rejects.toMatchObject(MISMATCH)
        await runInContext({ requestId: 'r-2' }, () =>
          expect(globex.db.selectNoFrom(({ lit }) => lit(1).as('one')).execute()).rejects.toMatchObject(MISMATCH),
        )
      }),
    )
  })

  test('is left only by withoutTenant, which keeps the request and the actor', async () => {
    const seen = await scope.run('acme', () =>
      runInContext({ actor, requestId: 'r-1' }, () =>
        opened.tenancy.transaction(() =>
          scope.withoutTenant(async () => ({
            context: currentContext(),
            other: await scope.run('globex', ({ id }) => id),
            inTransaction: opened.tenancy.kernel.database.inTransaction,
          })),
        ),
      ),
    )
    expect(seen).toEqual({
      context: { requestId: 'r-1', actor, ip: null, tenantId: null },
      other: 'globex',
      inTransaction: false,
    })
  })

  test('includes the await of a lazy promise', async () => {
    expect(await scope.run('acme', () => lazy(() => currentContext().tenantId))).toBe('acme')
    const without = () => scope.withoutTenant(() => lazy(() => currentContext().tenantId))
    expect(await scope.run('acme', without)).toBeNull()
  })
})

test('the statements with which TypeORM starts have a response without a tenant, all others are rejected', async () => {
  const client = await new scope.pg.Pool().connect()
  for (const open of [undefined, null, NO_TENANT]) {
    await inContextOf(open, async () => {
      const one = async (text: string) => (await client.query(text)).rows
      expect(await one('SELECT version()')).toEqual([{ version: expect.stringMatching(/^PostgreSQL 1\d/) }])
      expect(await one('SELECT * FROM current_database()')).toEqual([{ current_database: 'use-the-handle' }])
      expect(await one('SELECT * FROM current_schema()')).toEqual([{ current_schema: null }])
      for (const text of ['SELECT 1', 'SELECT version(), 1', 'BEGIN'])
        await expect(one(text)).rejects.toMatchObject(MISMATCH)
    })
  }
  await inContextOf('acme', async () => {
    const { rows } = await client.query('SELECT * FROM current_database()')
    expect(rows).not.toEqual([{ current_database: 'use-the-handle' }])
  })
  client.release()
})
