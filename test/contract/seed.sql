-- Two statements, which the test distinguishes. They leave no rows.
select count(*) from notes;
select ';';
