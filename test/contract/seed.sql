-- Two statements, so that they are told apart; nothing is left behind.
select count(*) from notes;
select ';';
