import { rowscopePg } from '../../drivers/isolation/rowscope-pg.ts'
import { describeOutbox } from './entries.fixture.ts'

describeOutbox(rowscopePg)
