/** Runs the suite of transfers into adopted shared tables with a tenant column of type uuid. */
import { rowTransferSuite } from './row-transfers.suite.fixture.ts'

rowTransferSuite('uuid')
