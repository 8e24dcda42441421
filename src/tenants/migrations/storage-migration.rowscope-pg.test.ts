import { rowscopePg } from '../../drivers/isolation/rowscope-pg.ts'
import { migratesStorage } from './storage-migration.fixture.ts'

migratesStorage('rowscope-pg', () => rowscopePg(), true)
