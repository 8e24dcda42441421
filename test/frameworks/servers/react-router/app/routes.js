import { route } from '@react-router/dev/routes'

export default [route('page', 'page.jsx'), route('*', 'every-path.js')]
