/** Cases of transfers into adopted shared tables, for each type of the tenant column. */
import { randomUUID } from 'node:crypto'
import { truncate } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type AdoptedType, IDS, openRowTransfers, type RowTransfers } from './row-transfers.fixture.ts'

export const rowTransferSuite = (type: AdoptedType) =>
  describe(`adopted tables with a tenant column of type ${type}`, () => {
    let here: RowTransfers
    const [acme, globex, third, fourth] = IDS[type]
    beforeAll(async () => {
      here = await openRowTransfers(type)
    })
    afterAll(() => here?.end())

    test('a restore replaces the rows of the tenant, and nothing of other tenants; an undo returns to the former rows', async () => {
      const before = await here.rows(acme)
      const backupId = await here.backup(acme)
      await here.run(acme, `update tasks set body = 'changed', state = 'done'`)
      await here.run(acme, `insert into projects (title, slug, lead) values ('later', 'later', 2)`)
      await here.run(acme, `delete from labels`)
      const [later, others] = [await here.rows(acme), await here.others(acme)]
      await here.done(await here.transfers.backups.restore(acme, { backupId }))
      expect(await here.rows(acme)).toEqual(before)
      expect(await here.others(acme)).toEqual(others)
      expect(await here.aside()).toHaveLength(1)
      await here.done(await here.transfers.move(acme, { undo: true }))
      expect(await here.rows(acme)).toEqual(later)
      expect(await here.others(acme)).toEqual(others)
      await here.done(await here.transfers.move(acme, { undo: true }))
      expect(await here.rows(acme)).toEqual(before)
      await here.run(acme, `insert into projects (title) values ('next')`)
      await here.run(acme, `delete from projects where title = 'next'`)
    })

    test('an expired former location is dropped, and a purge leaves nothing of the tenant', async () => {
      await here.sql(`update multitenancy.storage_locations set purge_at = now() - interval '1 hour'`)
      await here.transfers.recover()
      expect(await here.aside()).toEqual([])
      expect(await here.sql('select * from tenantry.row_copies')).toEqual([])
    })

    test('a rehearsal compares the archive with its restored rows, and changes nothing', async () => {
      const backupId = await here.backup(acme)
      await here.run(acme, `insert into labels values (default, 'blue')`)
      const [before, others] = [await here.rows(acme), await here.others(acme)]
      const transfer = await here.done(await here.transfers.backups.restore(acme, { backupId, rehearse: true }))
      expect(transfer).toMatchObject({ compared: 'contents' })
      expect(await here.rows(acme)).toEqual(before)
      expect(await here.others(acme)).toEqual(others)
      expect(await here.aside()).toEqual([])
    })

    test('an incomplete archive leaves the former rows, and the tenant in use', async () => {
      const backupId = await here.backup(acme)
      await here.run(acme, `insert into labels values (default, 'green')`)
      const [before, others] = [await here.rows(acme), await here.others(acme)]
      const file = (await here.archiveFiles()).find((name) => name.includes(backupId)) ?? ''
      await truncate(join(here.archives, file), 200)
      const transfer = await here.ended(await here.transfers.backups.restore(acme, { backupId }))
      expect(transfer).toMatchObject({ state: 'failed', failure: { code: 'E_BACKUP_INCOMPATIBLE' } })
      expect(await here.rows(acme)).toEqual(before)
      expect(await here.others(acme)).toEqual(others)
      expect(await here.aside()).toEqual([])
      expect(await here.tenants.get(acme)).toMatchObject({ status: 'active', maintenance: null })
    })

    test('a copy with a key that another tenant has by now is rejected before a row is deleted', async () => {
      const backupId = await here.backup(acme)
      await here.run(acme, `update projects set slug = null`)
      await here.run(globex, `insert into projects (title, slug) values ('stolen', 'rocket')`)
      const [before, others] = [await here.rows(acme), await here.others(acme)]
      const transfer = await here.ended(await here.transfers.backups.restore(acme, { backupId }))
      expect(transfer.failure).toEqual({
        code: 'E_BACKUP_INCOMPATIBLE',
        message:
          'Another tenant has values of the copy in the key "projects_slug_key" of the table "projects", which does not contain "org_id". Nothing was changed.',
      })
      expect(await here.rows(acme)).toEqual(before)
      expect(await here.others(acme)).toEqual(others)
      await here.run(globex, `delete from projects where title = 'stolen'`)
    })

    test('a reference from a row of another tenant, and from a table outside of the schema, prevents the restore', async () => {
      const backupId = await here.backup(acme)
      const restore = async () => (await here.ended(await here.transfers.backups.restore(acme, { backupId }))).failure
      const rows = await here.rows(acme)
      await here.sql(`insert into app.tasks (org_id, project_id, body) values ('${globex}', 1, 'foreign')`)
      expect(await restore()).toMatchObject({
        message: expect.stringContaining('Rows of another tenant in app.tasks refer'),
      })
      await here.sql(`delete from app.tasks where body = 'foreign' or body = 'FOREIGN'`)
      const ofProject = [
        'project bigint references app.projects (id) on delete cascade',
        `org_id ${type}, project bigint, foreign key (org_id, project) references app.projects (org_id, id) on delete cascade`,
      ]
      await here.sql('alter table app.projects add constraint of_one unique (org_id, id)')
      for (const columns of ofProject) {
        await here.sql(`create table internal.audits (${columns})`)
        expect(await restore()).toMatchObject({
          message: expect.stringContaining('of internal.audits refers to rows of tenants'),
        })
        await here.sql('drop table internal.audits')
      }
      await here.sql('alter table app.projects drop constraint of_one')
      expect(await here.rows(acme)).toEqual(rows)
      expect(await restore()).toBeNull()
    })

    test('a suspended tenant stays closed after a restore', async () => {
      const backupId = await here.backup(globex)
      const rows = await here.rows(globex)
      await here.tenants.suspend(globex)
      await here.done(await here.transfers.backups.restore(globex, { backupId }))
      await expect(here.rows(globex)).rejects.toThrow()
      await here.tenants.activate(globex)
      expect(await here.rows(globex)).toEqual(rows)
    })

    test('a tenant moves in, back, in again and out, each time with its rows', async () => {
      await here.tenants.create({ id: third, name: 'Third', isolation: 'schema-pg' })
      await here.tenants.installation.install(third, { isLast: true })
      await here.run(third, `insert into projects (id, title, slug) values (100, 'moved', 'moved')`)
      await here.run(third, `insert into tasks (id, project_id, body) values (100, 100, 'pack')`)
      await here.run(third, `update projects set lead = 100`)
      await here.run(third, `insert into labels values (default, 'red')`)
      const [rows, others] = [await here.rows(third), await here.others(third)]
      await here.run(third, `insert into labels values ('${globex}', 'foreign')`)
      const rejected = await here.ended(await here.transfers.move(third, { isolation: 'rowscope-pg' }))
      expect(rejected.failure).toMatchObject({
        message: expect.stringContaining(`another value than "${third}" in "org_id"`),
      })
      await here.run(third, `delete from labels where label = 'foreign'`)
      const backupId = await here.backup(third)
      const rehearsal = { backupId, rehearse: true, isolation: 'rowscope-pg' }
      expect(await here.done(await here.transfers.backups.restore(third, rehearsal))).toMatchObject({
        compared: 'contents',
      })
      await here.done(await here.transfers.move(third, { isolation: 'rowscope-pg' }))
      expect(await here.tenants.get(third)).toMatchObject({ isolation: 'rowscope-pg', maintenance: null })
      expect(await here.rows(third)).toEqual(rows)
      expect(await here.others(third)).toEqual(others)
      await here.run(third, `insert into labels values (default, 'blue')`)
      await here.done(await here.transfers.move(third, { undo: true }))
      expect(await here.rows(third)).toEqual(rows)
      await here.done(await here.transfers.move(third, { undo: true }))
      expect((await here.rows(third)).labels).toHaveLength(2)
      await here.done(await here.transfers.move(third, { isolation: 'schema-pg', placement: 'other' }))
      await here.done(await here.transfers.move(third, { isolation: 'rowscope-pg', placement: 'main' }))
      expect((await here.rows(third)).labels).toHaveLength(2)
      expect(await here.others(third)).toEqual(others)
    })

    test('a move with a key that another tenant has leaves the tenant where it is', async () => {
      await here.tenants.create({ id: fourth, name: 'Fourth', isolation: 'schema-pg' })
      await here.tenants.installation.install(fourth, { isLast: true })
      await here.run(fourth, `insert into projects (title) values ('with the id 1')`)
      const others = await here.others(fourth)
      const transfer = await here.ended(await here.transfers.move(fourth, { isolation: 'rowscope-pg' }))
      expect(transfer.failure).toMatchObject({ message: expect.stringContaining('the key "projects_pkey"') })
      expect(await here.tenants.get(fourth)).toMatchObject({ isolation: 'schema-pg', maintenance: null })
      expect(await here.run(fourth, 'select title from projects')).toEqual([{ title: 'with the id 1' }])
      expect(await here.others(fourth)).toEqual(others)
    })

    test('an id that is no value of the column is rejected by clones, moves and restores', async () => {
      await here.tenants.create({ id: 'plain', name: 'Plain', isolation: 'schema-pg' })
      await here.tenants.installation.install('plain', { isLast: true })
      await expect(here.transfers.move('plain', { isolation: 'rowscope-pg' })).rejects.toMatchObject({
        code: 'E_INVALID_REQUEST',
        extras: { errors: [{ path: 'isolation', message: expect.stringContaining('no value of its tenant column') }] },
      })
      await expect(here.transfers.clone(acme, { id: 'plain-2', name: 'Two' })).rejects.toMatchObject({
        code: 'E_INVALID_REQUEST',
        extras: { errors: [{ path: 'id', message: expect.stringContaining('is no value of the tenant column') }] },
      })
    })

    test('a clone has the rows whose keys contain the tenant column; other rows are rejected', async () => {
      const id = type === 'uuid' ? randomUUID() : '500'
      const rejected = await here.ended(await here.transfers.clone(acme, { id, name: 'Clone' }))
      expect(rejected).toMatchObject({ state: 'failed', failure: { code: 'E_BACKUP_INCOMPATIBLE' } })
      expect(await here.tenants.get(id)).toMatchObject({ status: 'failed' })

      const source = type === 'uuid' ? randomUUID() : '501'
      await here.tenants.create({ id: source, name: 'Source', isolation: 'rowscope-pg' })
      await here.tenants.installation.install(source, { isLast: true })
      await here.run(source, `insert into labels values (default, 'one'), (default, 'two')`)
      const copy = type === 'uuid' ? randomUUID() : '502'
      const others = await here.others(copy)
      await here.done(await here.transfers.clone(source, { id: copy, name: 'Copy' }))
      expect((await here.rows(copy)).labels).toEqual([{ label: 'one' }, { label: 'two' }])
      expect(await here.others(copy)).toEqual(others)
      await here.run(copy, `delete from labels where label = 'one'`)
      expect((await here.rows(source)).labels).toHaveLength(2)
    })

    test('a clone to an id that rows of the former application have is rejected, and its purge leaves these rows', async () => {
      const [id, source] = type === 'uuid' ? [randomUUID(), randomUUID()] : ['600', '601']
      await here.asApplication(`insert into app.labels values ('${id}', 'of the application')`)
      await here.tenants.create({ id: source, name: 'Empty', isolation: 'rowscope-pg' })
      await here.tenants.installation.install(source, { isLast: true })
      const transfer = await here.ended(await here.transfers.clone(source, { id, name: 'Clone' }))
      expect(transfer.failure).toMatchObject({
        message: expect.stringContaining(`already has rows with the id of the tenant "${id}"`),
      })
      await here.tenants.delete(id)
      await here.sql(`update multitenancy.tenants set purge_at = now() - interval '1 hour' where id = $1`, [id])
      await here.tenants.installation.purge(id)
      expect(await here.asApplication(`select label from app.labels where org_id = '${id}'`)).toEqual([
        { label: 'of the application' },
      ])
      await here.asApplication(`delete from app.labels where org_id = '${id}'`)
    })

    test('the proof of isolation finds no error afterwards, and the former application reads all rows', async () => {
      expect((await here.asApplication('select distinct org_id from app.labels')).length).toBeGreaterThan(2)
      const { checks } = await here.tenancy.doctor.examine({ prove: true })
      const found = checks.filter(({ severity }) => severity === 'error' || severity === 'warn')
      expect(found.map(({ code }) => code)).toEqual(['tenants.failed']) // of the rejected clone
    })
  })
