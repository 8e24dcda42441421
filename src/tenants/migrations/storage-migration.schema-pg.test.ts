import { schemaPg } from '../../drivers/isolation/schema-pg.ts'
import { migratesStorage } from './storage-migration.fixture.ts'

migratesStorage('schema-pg', () => schemaPg(), false)
