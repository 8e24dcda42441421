import { schemaPg } from '../../drivers/isolation/schema-pg.ts'
import { describeOutbox } from './entries.fixture.ts'

describeOutbox(schemaPg)
