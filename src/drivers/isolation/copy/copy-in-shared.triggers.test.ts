import { expect, test } from 'vitest'
import { changed, exported, replayed } from './copy.fixture.ts'
import { importsWithTriggers } from './copy-in-shared.triggers.fixture.ts'
import { locationFor } from './copy-storage.fixture.ts'
import { everything, FAST_OWNERS, query, TENANT, take, withFixture } from './rows.fixture.ts'

importsWithTriggers(FAST_OWNERS)

test('a foreign key with MATCH FULL is checked with MATCH FULL', async () => {
  const up = `create table pairs (${TENANT}, a int not null, b int not null, primary key (tenant_id, a, b));
    create table shared_pairs (a int, b int, primary key (a, b)); comment on table shared_pairs is 'tenantry: shared';
    insert into shared_pairs values (1, 2);
    create table refers (${TENANT}, id int, a int, b int, primary key (tenant_id, id), foreign key (a, b) references shared_pairs match full)`
  await withFixture(
    'a superuser',
    async (fixture) => {
      const driver = fixture.drivers['rowscope-pg']
      await driver.provision(locationFor(fixture, 'rowscope-pg', 'source'))
      await query(
        fixture,
        'rowscope-pg',
        'source',
        'insert into refers values (default, 1, 1, 2), (default, 2, null, null)',
      )
      const copy = await exported(driver, locationFor(fixture, 'rowscope-pg', 'source'))
      await take(driver, 'whole', replayed(copy))
      for (const [index, row] of ['3,1,', '3,,2', '3,2,1'].entries()) {
        await expect(
          take(driver, `partly-${index}`, replayed(changed(copy, 'refers', `id,a,b\n${row}\n`))),
        ).rejects.toThrow('"refers" violates its constraint "refers_a_b_fkey"')
      }
      expect((await everything(fixture)).refers).toEqual([
        '(source,1,1,2)',
        '(source,2,,)',
        '(whole,1,1,2)',
        '(whole,2,,)',
      ])
    },
    [{ name: '0001', checksum: 'a', up }],
  )
})
